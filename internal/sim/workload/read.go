package workload

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/base/hint"
)

// Format is a trace file's format.
type Format string

// The formats that Read knows.
const (
	Auto     Format = ""            // found out from the file's beginning
	Azure    Format = "azure"       // TIMESTAMP,ContextTokens,GeneratedTokens (Azure/AzurePublicDataset, 2023 and 2024)
	BurstGPT Format = "burstgpt"    // Timestamp,Model,Request tokens,Response tokens,… (HPMLL/BurstGPT)
	Mooncake Format = "mooncake"    // JSONL, timestamp in ms, blocks of 512 tokens (kvcache-ai/Mooncake)
	Bailian  Format = "bailian"     // JSONL, timestamp in s, blocks of 16 tokens, chats (alibaba-edu/qwen-bailian-usagetraces-anon)
	Timed    Format = "timed-trace" // JSONL, timestamp in s, blocks of 16 tokens (vllm bench serve --dataset-name timed_trace)
	ShareGPT Format = "sharegpt"    // JSON array of conversations; no arrival times
	CSV      Format = "csv"         // a header with arrival, prompt_tokens, output_tokens, session, tenant
)

// Formats lists the names that a user may give.
func Formats() []Format {
	return []Format{Azure, BurstGPT, Mooncake, Bailian, Timed, ShareGPT, CSV}
}

// wordTokens estimates tokens per word of ShareGPT text: what BPE vocabularies of 32k
// to 128k entries give on English.
const wordTokens = 1.3

// Bounds of the reading.
const (
	maxRequests        = 2_000_000
	maxLine            = 4 << 20
	maxBytes           = 8 << 30
	maxConversation    = 512      // turns
	maxConversationLen = 64 << 20 // bytes
)

// ErrFormat means that the file is of no known format.
var ErrFormat = errors.New("unknown trace format")

// Read reads a trace of a format, or of one that it finds out. Lines that hold no request
// (failed ones, blank lines) are counted in Trace.Skipped; a line that does not follow its format is an error
// that names it. A last line cut off in its middle is skipped and counted.
func Read(r io.Reader, f Format) (*Trace, error) { return read(r, f, maxRequests) }

// read reads most requests at most.
func read(r io.Reader, f Format, most int) (*Trace, error) {
	br := bufio.NewReaderSize(io.LimitReader(r, maxBytes), 64<<10)
	if b, err := br.Peek(3); err == nil && bytes.Equal(b, []byte("\xef\xbb\xbf")) {
		_, _ = br.Discard(3)
	}
	var err error
	if f == Auto {
		if f, err = detect(br); err != nil {
			return nil, err
		}
	}
	t := &Trace{Format: f, Skipped: map[string]int{}}
	switch f {
	case Azure, BurstGPT, CSV:
		err = t.readCSV(br, most)
	case Mooncake, Bailian, Timed:
		err = t.readJSONL(br, most)
	case ShareGPT:
		err = t.readShareGPT(br, most)
	default:
		return nil, fmt.Errorf("%w %q: want one of %v", ErrFormat, f, Formats())
	}
	if err == nil {
		err = t.normalize()
	}
	if err != nil {
		return nil, fmt.Errorf("read %s trace: %w", f, err)
	}
	return t, nil
}

// detect tells the format from the first bytes.
func detect(br *bufio.Reader) (Format, error) {
	head, err := br.Peek(4 << 10)
	if len(head) == 0 {
		if err == nil || err == io.EOF {
			err = errors.New("file is empty")
		}
		return "", fmt.Errorf("read trace: %w", err)
	}
	head = bytes.TrimLeft(head, " \t\r\n")
	line, _, _ := bytes.Cut(head, []byte{'\n'})
	low := strings.ToLower(string(line))
	switch {
	case bytes.HasPrefix(head, []byte{'['}):
		return ShareGPT, nil
	case bytes.HasPrefix(head, []byte{'{'}):
		switch {
		case strings.Contains(low, `"chat_id"`):
			return Bailian, nil
		case strings.Contains(low, `"timestamp"`) && strings.Contains(low, `"input_length"`):
			return Mooncake, nil
		}
	case strings.Contains(low, "contexttokens"):
		return Azure, nil
	case strings.Contains(low, "request tokens"):
		return BurstGPT, nil
	case strings.Contains(low, "prompt_tokens") || strings.Contains(low, "input_length"):
		return CSV, nil
	}
	return "", hint.With(fmt.Errorf("%w: it begins with %.60q", ErrFormat, line),
		"write it as a CSV with the header arrival,prompt_tokens,output_tokens")
}

// add keeps a request, and reports whether there is room for more.
func (t *Trace) add(r Request, most int) (bool, error) {
	if err := r.check(); err != nil {
		return false, err
	}
	if r.PromptTokens == 0 {
		t.Skipped["no prompt"]++
		return true, nil
	}
	if len(t.Requests) == most {
		t.Truncated = true
		return false, nil
	}
	t.Requests = append(t.Requests, r)
	return true, nil
}

// columns finds the columns of a CSV header; -1 is absent.
type columns struct{ arrival, prompt, output, session, tenant int }

func findColumns(header []string) columns {
	find := func(names ...string) int {
		return slices.IndexFunc(header, func(h string) bool {
			return slices.Contains(names, strings.ToLower(strings.TrimSpace(h)))
		})
	}
	return columns{
		arrival: find("timestamp", "timestamp(s)", "arrival", "arrival_s", "time", "arrival_ms", "timestamp(ms)"),
		prompt:  find("contexttokens", "request tokens", "prompt_tokens", "input_length", "input_tokens"),
		output:  find("generatedtokens", "response tokens", "output_tokens", "output_length", "max_tokens"),
		session: find("session id", "session", "session_id", "conversation", "chat_id"),
		tenant:  find("tenant", "user", "model"),
	}
}

func (t *Trace) readCSV(br *bufio.Reader, most int) error {
	cr := csv.NewReader(br)
	cr.ReuseRecord, cr.FieldsPerRecord, cr.LazyQuotes = true, -1, true
	header, err := cr.Read()
	if err != nil {
		return fmt.Errorf("header: %w", err)
	}
	col := findColumns(header)
	if col.arrival < 0 || col.prompt < 0 {
		return hint.With(fmt.Errorf("header %.80q lacks a column for arrival or prompt tokens", strings.Join(header, ",")),
			"give it columns arrival,prompt_tokens,output_tokens")
	}
	unit := time.Second
	if h := strings.ToLower(header[col.arrival]); strings.Contains(h, "ms") {
		unit = time.Millisecond
	}
	failures := t.Format == BurstGPT
	seed := maphash.MakeSeed()
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
		r, err := col.request(rec, unit, seed)
		if err != nil {
			return fmt.Errorf("line %d: %w", line, err)
		}
		if failures && r.OutputTokens == 0 {
			t.Skipped["failed request"]++ // BurstGPT: no response tokens
			continue
		}
		more, err := t.add(r, most)
		if err != nil {
			return fmt.Errorf("line %d: %w", line, err)
		}
		if !more {
			return nil
		}
	}
}

func (c columns) request(rec []string, unit time.Duration, seed maphash.Seed) (r Request, err error) {
	if r.Arrival, err = arrival(rec[c.arrival], unit); err != nil {
		return r, err
	}
	if r.PromptTokens, err = tokens(rec[c.prompt]); err != nil {
		return r, err
	}
	if c.output >= 0 {
		if r.OutputTokens, err = tokens(rec[c.output]); err != nil {
			return r, err
		}
	}
	if c.session >= 0 && c.session < len(rec) && rec[c.session] != "" {
		r.Session = sessionID(seed, rec[c.session])
	}
	if c.tenant >= 0 && c.tenant < len(rec) {
		r.Tenant = strings.Clone(rec[c.tenant])
	}
	return r, nil
}

// sessionID numbers sessions within one trace.
func sessionID(seed maphash.Seed, name string) uint64 {
	return maphash.String(seed, name) | 1
}

// arrival parses seconds (or another unit) since some beginning, or a date.
func arrival(s string, unit time.Duration) (time.Duration, error) {
	s = strings.TrimSpace(s)
	if v, err := strconv.ParseFloat(s, 64); err == nil {
		return scaled(v, unit)
	}
	for _, layout := range []string{"2006-01-02 15:04:05.9999999", "2006-01-02 15:04:05.999999999Z07:00", time.RFC3339Nano} {
		if at, err := time.Parse(layout, s); err == nil {
			// Since the day the first such trace began, to stay within a Duration.
			return at.Sub(time.Date(2023, 1, 1, 0, 0, 0, 0, time.UTC)), nil
		}
	}
	return 0, fmt.Errorf("arrival %.40q is neither a number nor a date", s)
}

// scaled converts a number of units, refusing what no trace can mean.
func scaled(v float64, unit time.Duration) (time.Duration, error) {
	ns := v * float64(unit)
	if math.IsNaN(ns) || math.Abs(ns) > float64(maxArrival) {
		return 0, fmt.Errorf("arrival %v is out of range", v)
	}
	return time.Duration(ns), nil
}

func tokens(s string) (int, error) {
	v, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	if err != nil || math.IsNaN(v) || v < 0 || v > maxTokens {
		return 0, fmt.Errorf("token count %.40q", s)
	}
	return int(v), nil
}

// jsonLine is one line of the JSONL traces.
type jsonLine struct {
	Timestamp    *float64 `json:"timestamp"`
	InputLength  float64  `json:"input_length"`
	OutputLength float64  `json:"output_length"`
	HashIDs      []int64  `json:"hash_ids"`
	SessionID    any      `json:"session_id"`
	ChatID       *int64   `json:"chat_id"`
	ParentChatID *int64   `json:"parent_chat_id"`
}

func (t *Trace) readJSONL(br *bufio.Reader, most int) error {
	unit := time.Second
	t.BlockTokens = 16
	if t.Format == Mooncake {
		unit, t.BlockTokens = time.Millisecond, 512
	}
	roots := map[int64]uint64{} // chat → session
	seed := maphash.MakeSeed()
	sc := bufio.NewScanner(br)
	sc.Buffer(make([]byte, 0, 64<<10), maxLine)
	var bad error // of the line before: an error unless it was the last
	for line := 1; sc.Scan(); line++ {
		if bad != nil {
			return bad
		}
		b := bytes.TrimSpace(sc.Bytes())
		if len(b) == 0 {
			continue
		}
		var l jsonLine
		if err := json.Unmarshal(b, &l); err != nil {
			bad = fmt.Errorf("line %d: %w", line, err)
			continue
		}
		r, err := l.request(unit, roots, seed)
		if err != nil {
			return fmt.Errorf("line %d: %w", line, err)
		}
		more, err := t.add(r, most)
		if err != nil {
			return fmt.Errorf("line %d: %w", line, err)
		}
		if !more {
			return nil
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

func (l *jsonLine) request(unit time.Duration, roots map[int64]uint64, seed maphash.Seed) (r Request, err error) {
	if l.Timestamp == nil {
		return r, errors.New("no timestamp")
	}
	if r.Arrival, err = scaled(*l.Timestamp, unit); err != nil {
		return r, err
	}
	if !(l.InputLength >= 0 && l.InputLength <= maxTokens && l.OutputLength >= 0 && l.OutputLength <= maxTokens) {
		return r, fmt.Errorf("lengths %v and %v", l.InputLength, l.OutputLength)
	}
	r.PromptTokens, r.OutputTokens = int(l.InputLength), int(l.OutputLength)
	if len(l.HashIDs) > 0 {
		r.Blocks = make([]uint64, len(l.HashIDs))
		for i, h := range l.HashIDs {
			r.Blocks[i] = uint64(h)
		}
	}
	switch {
	case l.SessionID != nil:
		r.Session = sessionID(seed, fmt.Sprint(l.SessionID))
	case l.ChatID != nil:
		// A chat without a parent begins a session; a child joins its parent's.
		s := uint64(*l.ChatID)<<1 | 1
		if p := l.ParentChatID; p != nil && *p >= 0 {
			if root, ok := roots[*p]; ok {
				s = root
			}
		}
		roots[*l.ChatID] = s
		r.Session = s
	}
	return r, nil
}

// conversation is one entry of a ShareGPT-like file.
type conversation struct {
	Conversations []struct {
		From    string `json:"from"`
		Role    string `json:"role"`
		Value   string `json:"value"`
		Content string `json:"content"`
	} `json:"conversations"`
}

// readShareGPT takes lengths from texts, which it does not keep. Every user
// turn that is answered is a request; its prompt is the conversation so far.
func (t *Trace) readShareGPT(br *bufio.Reader, most int) error {
	limited := &entryReader{r: br}
	dec := json.NewDecoder(limited)
	if tok, err := dec.Token(); err != nil || tok != json.Delim('[') {
		return errors.New("not a JSON array")
	}
	count := func(text string) int {
		return int(math.Ceil(float64(len(strings.Fields(text))) * wordTokens))
	}
	for n := 1; dec.More(); n++ {
		limited.n = 0
		var c conversation
		if err := dec.Decode(&c); err != nil {
			if errors.Is(err, io.ErrUnexpectedEOF) && len(t.Requests) > 0 {
				t.Skipped["last conversation cut off"]++
				return nil
			}
			return fmt.Errorf("conversation %d: %w", n, err)
		}
		history, asked := 0, 0
		for i, turn := range c.Conversations {
			if i == maxConversation {
				t.Skipped["turn beyond the limit"]++
				break
			}
			length := count(turn.Value + turn.Content)
			who := strings.ToLower(turn.From + turn.Role)
			if who != "gpt" && who != "assistant" && who != "bing" && who != "chatgpt" {
				asked += length
				continue
			}
			if asked == 0 {
				continue
			}
			r := Request{PromptTokens: history + asked, OutputTokens: length}
			if len(c.Conversations) > 2 {
				r.Session = uint64(n)
			}
			more, err := t.add(r, most)
			if err != nil {
				return fmt.Errorf("conversation %d: %w", n, err)
			}
			if !more {
				return nil
			}
			history, asked = history+asked+length, 0
		}
	}
	return nil
}

// entryReader bounds the bytes of one entry, whose owner sets n to 0.
type entryReader struct {
	r io.Reader
	n int
}

func (e *entryReader) Read(p []byte) (int, error) {
	if e.n > maxConversationLen {
		return 0, fmt.Errorf("conversation over %d bytes", maxConversationLen)
	}
	n, err := e.r.Read(p)
	e.n += n
	return n, err
}
