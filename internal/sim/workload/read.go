package workload

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/base/hint"
)

// The formats of trace files.
const (
	// CSV has a header with arrival (seconds, or dates), prompt_tokens and optionally output_tokens and session.
	CSV = "csv"
	// JSONL has an object on each line, with the names of Mooncake's traces (kvcache-ai/Mooncake): timestamp in
	// milliseconds, input_length, output_length, hash_ids of blocks of 512 tokens, session_id.
	JSONL = "jsonl"
)

// Bounds of a file.
const (
	maxRequests = 2_000_000
	maxLine     = 4 << 20
	maxBytes    = 8 << 30
)

// jsonlBlock is how many tokens a hash of a JSONL trace stands for.
const jsonlBlock = 512

// ErrFormat means that the file is of no known format.
var ErrFormat = errors.New("unknown trace format")

// Read reads a trace in CSV or JSONL, chosen by the first byte. Lines without a request are counted in Trace.Skipped. A
// line that does not follow its format is an error that names it. A last line that was cut off is skipped and counted.
func Read(r io.Reader) (*Trace, error) { return readUpTo(r, maxRequests) }

// readUpTo reads at most this many requests.
func readUpTo(r io.Reader, most int) (*Trace, error) {
	br := bufio.NewReaderSize(io.LimitReader(r, maxBytes), 64<<10)
	if b, err := br.Peek(3); err == nil && bytes.Equal(b, []byte("\xef\xbb\xbf")) {
		_, _ = br.Discard(3)
	}
	t := &traceReader{Trace: Trace{Format: CSV, Skipped: map[string]int{}}, most: most, sessions: map[string]uint64{}}
	lines := t.csvLines
	switch first, err := br.Peek(1); {
	case err == io.EOF:
		return nil, errors.New("read trace: file is empty")
	case err != nil:
		return nil, fmt.Errorf("read trace: %w", err)
	case first[0] == '{':
		t.Format, t.BlockTokens, lines = JSONL, jsonlBlock, t.jsonLines
	}
	err := lines(br)
	if err == nil {
		err = t.normalize()
	}
	if err != nil {
		return nil, fmt.Errorf("read %s trace: %w", t.Format, err)
	}
	return &t.Trace, nil
}

// A traceReader reads a Trace.
type traceReader struct {
	Trace
	most     int
	sessions map[string]uint64 // by their names
}

// sessionNumber returns the number of a session, 0 for no name.
func (t *traceReader) sessionNumber(name string) uint64 {
	if name == "" {
		return 0
	}
	id, ok := t.sessions[name]
	if !ok {
		id = uint64(len(t.sessions)) + 1
		t.sessions[strings.Clone(name)] = id
	}
	return id
}

// addRequest keeps the request of a line, and reports whether there is room for more.
func (t *traceReader) addRequest(line int, r Request, err error) (bool, error) {
	if err == nil {
		err = r.checkRange()
	}
	switch {
	case err != nil:
		return false, fmt.Errorf("line %d: %w", line, err)
	case r.PromptTokens == 0:
		t.Skipped["no prompt"]++
		return true, nil
	case len(t.Requests) == t.most:
		t.Truncated = true
		return false, nil
	}
	t.Requests = append(t.Requests, r)
	return true, nil
}

// columns are the places of a CSV's columns; -1 is absent.
type columns struct{ arrival, prompt, output, session int }

func (t *traceReader) csvLines(br *bufio.Reader) error {
	cr := csv.NewReader(br)
	cr.ReuseRecord, cr.FieldsPerRecord, cr.LazyQuotes = true, -1, true
	header, err := cr.Read()
	if err != nil {
		return fmt.Errorf("header: %w", err)
	}
	find := func(name string) int {
		return slices.IndexFunc(header, func(h string) bool { return strings.EqualFold(strings.TrimSpace(h), name) })
	}
	col := columns{find("arrival"), find("prompt_tokens"), find("output_tokens"), find("session")}
	if col.arrival < 0 || col.prompt < 0 {
		return hint.With(fmt.Errorf("%w: the header %.80q has no column arrival or none prompt_tokens",
			ErrFormat, strings.Join(header, ",")),
			"name its columns arrival (seconds, or dates), prompt_tokens and, if it has them, output_tokens "+
				"and session: sed '1s/.*/arrival,prompt_tokens,output_tokens/'")
	}
	for line := 2; ; line++ {
		rec, err := cr.Read()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", line, err)
		}
		if last := max(col.arrival, col.prompt, col.output); len(rec) <= last {
			t.Skipped["incomplete line"]++
			continue
		}
		r, err := t.csvRequest(rec, col)
		if more, err := t.addRequest(line, r, err); !more {
			return err
		}
	}
}

func (t *traceReader) csvRequest(rec []string, col columns) (r Request, err error) {
	if r.Arrival, err = parseArrival(rec[col.arrival]); err != nil {
		return r, err
	}
	if r.PromptTokens, err = parseTokens(rec[col.prompt]); err != nil {
		return r, err
	}
	if col.output >= 0 {
		if r.OutputTokens, err = parseTokens(rec[col.output]); err != nil {
			return r, err
		}
	}
	if col.session >= 0 && col.session < len(rec) {
		r.Session = t.sessionNumber(rec[col.session])
	}
	return r, nil
}

// parseArrival parses seconds since some beginning, or a date.
func parseArrival(s string) (time.Duration, error) {
	s = strings.TrimSpace(s)
	if v, err := strconv.ParseFloat(s, 64); err == nil {
		return toArrival(v, time.Second)
	}
	for _, layout := range []string{
		"2006-01-02 15:04:05.9999999", "2006-01-02 15:04:05.999999999Z07:00", time.RFC3339Nano,
	} {
		if at, err := time.Parse(layout, s); err == nil {
			// Since a recent day, to stay within a Duration.
			return at.Sub(time.Date(2023, 1, 1, 0, 0, 0, 0, time.UTC)), nil
		}
	}
	return 0, fmt.Errorf("arrival %.40q is neither a number nor a date", s)
}

// toArrival converts a number of units, refusing impossible times.
func toArrival(v float64, unit time.Duration) (time.Duration, error) {
	ns := v * float64(unit)
	if math.IsNaN(ns) || math.Abs(ns) > float64(maxArrival) {
		return 0, fmt.Errorf("arrival %v is out of range", v)
	}
	return time.Duration(ns), nil
}

func parseTokens(s string) (int, error) {
	v, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	if err != nil || math.IsNaN(v) || v < 0 || v > maxTokens {
		return 0, fmt.Errorf("token count %.40q", s)
	}
	return int(v), nil
}

// jsonLine is one line of a JSONL trace.
type jsonLine struct {
	Timestamp    *int64   `json:"timestamp"` // ms
	InputLength  int      `json:"input_length"`
	OutputLength int      `json:"output_length"`
	HashIDs      []uint64 `json:"hash_ids"`
	SessionID    any      `json:"session_id"`
}

func (t *traceReader) jsonLines(br *bufio.Reader) error {
	sc := bufio.NewScanner(br)
	sc.Buffer(make([]byte, 0, 64<<10), maxLine)
	var bad error // the previous line's error, ignored if it was the last line
	for line := 1; sc.Scan(); line++ {
		if bad != nil {
			return bad
		}
		b := bytes.TrimSpace(sc.Bytes())
		if len(b) == 0 {
			continue
		}
		var l jsonLine
		err := json.Unmarshal(b, &l)
		if syntax := new(json.SyntaxError); errors.As(err, &syntax) {
			bad = fmt.Errorf("line %d: %w", line, err)
			continue
		}
		r := Request{PromptTokens: l.InputLength, OutputTokens: l.OutputLength, Blocks: l.HashIDs}
		switch {
		case err != nil:
			err = hint.With(err, "timestamp is in whole milliseconds, and lengths are in tokens")
		case l.Timestamp == nil:
			err = errors.New("no timestamp")
		default:
			r.Arrival, err = toArrival(float64(*l.Timestamp), time.Millisecond)
		}
		if l.SessionID != nil {
			r.Session = t.sessionNumber(fmt.Sprint(l.SessionID))
		}
		if more, err := t.addRequest(line, r, err); !more {
			return err
		}
	}
	if bad != nil {
		if len(t.Requests) == 0 {
			return bad
		}
		t.Skipped["last line cut off"]++
	}
	return sc.Err()
}
