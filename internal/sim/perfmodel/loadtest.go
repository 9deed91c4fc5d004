package perfmodel

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/sim"
)

// A LoadTest is the per-request results of a load test.
type LoadTest struct {
	Requests []MeasuredRequest
	Skipped  map[string]int // requests left out, by reason

	prefix []uint64 // the longest cached prefix, which all requests share
}

// Bounds of a file of results.
const (
	maxResults      = 1_000_000
	maxResultsBytes = 256 << 20
)

const resultsHint = "give a file of sixty bench --csv"

// ReadLoadTest reads the results of sixty bench --csv, for engines with a block size. Requests that failed are left out
// and counted. Requests that were cut short are part of the load and nothing is fitted to them.
func ReadLoadTest(r io.Reader, blockSize int) (*LoadTest, error) {
	t := &LoadTest{Skipped: map[string]int{}}
	err := t.readCSV(io.LimitReader(r, maxResultsBytes), blockSize)
	if err == nil && len(t.Requests) == 0 {
		err = errors.New("no request got a token")
	}
	if err != nil {
		return nil, hint.With(fmt.Errorf("load test results: %w", err), resultsHint)
	}
	return t, nil
}

// Skips describes the requests that were left out, "" for none.
func (t *LoadTest) Skips() string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(t.Skipped)) {
		parts = append(parts, fmt.Sprintf("%d %s", t.Skipped[k], k))
	}
	return strings.Join(parts, ", ")
}

// addRequest keeps a request whose times are plausible. Times are in seconds.
func (t *LoadTest) addRequest(sent, firstToken, lastToken float64, prompt, output, cached, blockSize int,
	whole bool) error {
	const longest = 1e9 // seconds; longer times do not fit into a Duration
	switch {
	case !(sent >= 0 && sent < longest && math.Abs(firstToken) < longest && math.Abs(lastToken) < longest):
		t.Skipped["with impossible times"]++
		return nil
	case output < 1 || firstToken <= sent || lastToken < firstToken:
		t.Skipped["without a token"]++
		return nil
	case prompt < 1 || prompt > 1<<24 || output > 1<<24 || cached < 0 || cached > prompt:
		t.Skipped["with impossible lengths"]++
		return nil
	case len(t.Requests) == maxResults:
		return fmt.Errorf("more than %d requests", maxResults)
	}
	at := func(sec float64) time.Duration { return time.Duration(sec * 1e9) }
	m := MeasuredRequest{
		Request:    sim.Request{Arrival: at(sent), PromptTokens: prompt, OutputTokens: output},
		Scheduled:  -1,
		FirstToken: at(firstToken), LastToken: at(lastToken), Use: whole,
	}
	if cached > 0 && blockSize > 0 {
		// The results say how much the prefix cache had, not whose it was.
		if len(t.prefix) < cached/blockSize {
			t.prefix = sim.SharedPrefix(1, cached, blockSize)
		}
		m.Request.Blocks = t.prefix[:cached/blockSize]
	}
	t.Requests = append(t.Requests, m)
	return nil
}

// readCSV reads the files of package loadreport.
func (t *LoadTest) readCSV(r io.Reader, blockSize int) error {
	cr := csv.NewReader(r)
	cr.ReuseRecord = true
	header, err := cr.Read()
	if err != nil {
		return fmt.Errorf("header: %w", err)
	}
	columns := map[string]int{}
	for i, name := range header {
		columns[name] = i
	}
	for _, name := range []string{"sent", "first_token", "last_token", "prompt_tokens", "output_tokens", "outcome"} {
		if _, ok := columns[name]; !ok {
			return fmt.Errorf("there is no column %q", name)
		}
	}
	for line := 2; ; line++ {
		rec, err := cr.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		cell := func(name string) float64 {
			i, ok := columns[name]
			if !ok || i >= len(rec) || rec[i] == "" {
				return 0
			}
			v, err := strconv.ParseFloat(rec[i], 64)
			if err != nil {
				return math.NaN()
			}
			return v
		}
		outcome := strings.Clone(rec[columns["outcome"]])
		if outcome != "complete" && outcome != "unfinished" {
			t.Skipped["failed"]++
			continue
		}
		count := func(name string) int {
			v := cell(name)
			if !(v >= 0 && v <= 1<<30) {
				return -1
			}
			return int(v)
		}
		err = t.addRequest(cell("sent"), cell("first_token"), cell("last_token"),
			count("prompt_tokens"), count("output_tokens"), count("cached_tokens"), blockSize,
			outcome == "complete")
		if err != nil {
			return fmt.Errorf("line %d: %w", line, err)
		}
	}
}
