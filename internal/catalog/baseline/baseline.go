// Package baseline reads and writes the file of a deployment's normal values and thresholds. A load test, or a
// measurement over a healthy period, makes them; the diagnosis and alert rules use them. The package computes nothing.
package baseline

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/base/version"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// Schema names the version of the JSON.
const Schema = "sixty.baseline/v1"

// A File holds the measured values of one model. Quantities are the signals of package indicator; times are in
// seconds.
type File struct {
	Schema  string       `json:"schema"`
	Tool    version.Tool `json:"tool"`
	Created time.Time    `json:"created"`
	Model   string       `json:"model"`  // model_name; "" fits every model
	Source  string       `json:"source"` // source of the numbers, for people

	// Normal holds the signals' values while all was well.
	Normal map[string]float64 `json:"normal,omitempty"`
	// Thresholds are the numbers beyond which a signal is at fault.
	Thresholds []Threshold `json:"thresholds"`

	// Capacity is the highest request rate that met the objective, 0 without a search.
	Capacity float64 `json:"capacity,omitempty"`
	// Conditions of the measurement: mean lengths, and requests in flight.
	PromptTokens float64 `json:"prompt_tokens,omitempty"`
	OutputTokens float64 `json:"output_tokens,omitempty"`
	Concurrency  float64 `json:"concurrency,omitempty"`
}

// A Threshold is one derived threshold.
type Threshold struct {
	Signal string  `json:"signal"`
	Op     string  `json:"op"` // ">" or "<": the side that is a fault
	Value  float64 `json:"value"`
	Normal float64 `json:"normal"` // the measured value
	Why    string  `json:"why"`
}

// Headroom is the factor by which a latency must exceed its healthy value to mean something. Chance and a slightly
// different load explain less than half as much again.
const Headroom = 1.5

// MaxFile bounds a baseline file: a list of numbers, not of samples.
const MaxFile = 1 << 20

// Parse reads a baseline file; name is used in errors.
func Parse(name string, content []byte) (*File, error) {
	if len(content) > MaxFile {
		return nil, fmt.Errorf("%s: %d bytes are more than a baseline can need (limit %d)", name, len(content), MaxFile)
	}
	f := &File{}
	dec := json.NewDecoder(bytes.NewReader(content))
	if err := dec.Decode(f); err != nil {
		return nil, hint.With(fmt.Errorf("read baseline %s: %w", name, err), "write one with: sixty bench URL "+
			"--save-baseline FILE, or sixty generate baseline")
	}
	if f.Schema != Schema {
		return nil, hint.With(fmt.Errorf("read baseline %s: schema %q, want %q", name, f.Schema, Schema),
			"write one with: sixty bench URL --save-baseline FILE, or sixty generate baseline")
	}
	for s, v := range f.Normal {
		if indicator.ByName(s) == nil {
			return nil, fmt.Errorf("read baseline %s: normal: unknown signal %q", name, s)
		}
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("read baseline %s: normal: %s is not a number", name, s)
		}
	}
	for i, t := range f.Thresholds {
		if t.Op != ">" && t.Op != "<" {
			return nil, fmt.Errorf(`read baseline %s: thresholds[%d]: op %q, want ">" or "<"`, name, i, t.Op)
		}
	}
	return f, nil
}

// Marshal writes the file.
func (f *File) Marshal() ([]byte, error) {
	out, err := json.MarshalIndent(f, "", "  ")
	return append(out, '\n'), err
}

// For returns the baseline of a model, else the one for every model, else nil.
func For(files []*File, model string) *File {
	var every *File
	for _, f := range files {
		switch f.Model {
		case model:
			return f
		case "":
			every = f
		}
	}
	return every
}

// Signal returns a signal's value while all was well.
func (f *File) Signal(s *indicator.Signal) (float64, bool) {
	if f == nil {
		return 0, false
	}
	v, ok := f.Normal[s.Name]
	return v, ok
}

// Threshold returns the derived threshold of a signal.
func (f *File) Threshold(signal, op string) (Threshold, bool) {
	if f == nil {
		return Threshold{}, false
	}
	for _, t := range f.Thresholds {
		if t.Signal == signal && t.Op == op {
			return t, true
		}
	}
	return Threshold{}, false
}
