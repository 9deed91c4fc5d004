package modelconfig

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/sixty-dev/sixty/internal/base/hint"
)

// Bounds of the input. Real files are a few kilobytes; lists of modules that are not quantized
// enlarge some to hundreds.
const (
	MaxBytes  = 4 << 20
	maxLayers = 1024
	maxSize   = 1 << 20 // size of a dimension
	maxVocab  = 1 << 24
	maxCount  = 1 << 16 // heads, experts
	maxLen    = 1 << 31 // positions
)

func itoa(n int) string { return strconv.Itoa(n) }

// fields gives typed access to a JSON object. It notes assumptions for missing fields in the model, and keeps the first
// error.
type fields struct {
	raw     map[string]any
	model   *Model
	loading Loading
	problem error
}

// failField keeps an error, unless there is one already.
func (f *fields) failField(format string, args ...any) {
	if f.problem == nil {
		f.problem = fmt.Errorf(format, args...)
	}
}

// has reports whether a field is present and not null.
func (f *fields) has(name string) bool { return f.raw[name] != nil }

// readInt reads a whole number from 0 to limit. It reports false if the field is missing.
func (f *fields) readInt(name string, limit int) (int, bool) {
	v, ok := f.raw[name]
	if !ok || v == nil {
		return 0, false
	}
	if list, isList := v.([]any); isList && len(list) > 0 {
		v = list[0] // some checkpoints have a value for each modality
	}
	n, isNumber := v.(float64)
	if !isNumber || n != math.Trunc(n) || n < 0 || n > float64(limit) {
		f.failField("%s is %s: want a whole number from 0 to %d", name, quoteShort(v), limit)
		return 0, true
	}
	return int(n), true
}

// requireInt reads the first of several fields that is present. It fails if none is, or if it is 0.
func (f *fields) requireInt(limit int, names ...string) int {
	for _, name := range names {
		if n, ok := f.readInt(name, limit); ok {
			if n < 1 {
				f.failField("%s is 0", name)
			}
			return n
		}
	}
	f.failField("%s is missing", strings.Join(names, " or "))
	return 0
}

// readOr reads a number, or returns a default and notes it as an assumption.
func (f *fields) readOr(name string, limit, value int, source string) int {
	if n, ok := f.readInt(name, limit); ok {
		return n
	}
	f.noteAssumption(name, itoa(value), source)
	return value
}

// readOptional reads the first of several fields that is present; 0 if none is.
func (f *fields) readOptional(limit int, names ...string) int {
	for _, name := range names {
		if n, ok := f.readInt(name, limit); ok {
			return n
		}
	}
	return 0
}

// readFlag reads a boolean field; missing is its value if it is missing.
func (f *fields) readFlag(name string, missing bool) bool {
	if v, ok := f.raw[name].(bool); ok {
		return v
	}
	return missing
}

func (f *fields) readText(name string) string {
	s, _ := f.raw[name].(string)
	return s
}

func (f *fields) readObject(name string) map[string]any {
	o, _ := f.raw[name].(map[string]any)
	return o
}

func (f *fields) readTexts(name string) []string {
	items, _ := f.raw[name].([]any)
	var out []string
	for _, i := range items {
		if s, ok := i.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

// readIndexes reads a list of layers.
func (f *fields) readIndexes(name string) map[int]bool {
	items, _ := f.raw[name].([]any)
	out := map[int]bool{}
	for _, i := range items {
		if n, ok := i.(float64); ok && n >= 0 && n < maxLayers {
			out[int(n)] = true
		}
	}
	return out
}

func (f *fields) noteAssumption(field, value, source string) {
	f.model.Assumed = append(f.model.Assumed, Assumption{field, value, source})
}

// quoteShort quotes a value from the input, and shortens it.
func quoteShort(v any) string {
	s := strings.ToValidUTF8(fmt.Sprint(v), "?")
	if r := []rune(s); len(r) > 40 {
		s = string(r[:40]) + "…"
	}
	return strconv.Quote(s)
}

func decodeObject(content []byte) (map[string]any, error) {
	if len(content) > MaxBytes {
		return nil, fmt.Errorf("%d bytes are more than a config.json can need (limit %d)", len(content), MaxBytes)
	}
	var object map[string]any
	if err := json.Unmarshal(content, &object); err != nil {
		return nil, hint.With(fmt.Errorf("no JSON object: %w", err),
			"give the model's config.json, as Hugging Face has it beside the weights")
	}
	if object == nil {
		return nil, errors.New("no JSON object: it is null")
	}
	return object, nil
}
