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

// Bounds of what is read. Real files are a few kilobytes; lists of modules that
// are not quantized make some of them hundreds.
const (
	MaxBytes  = 4 << 20
	maxLayers = 1024
	maxSize   = 1 << 20 // of a dimension
	maxVocab  = 1 << 24
	maxCount  = 1 << 16 // heads, experts
	maxLen    = 1 << 31 // positions
)

func itoa(n int) string { return strconv.Itoa(n) }

// fields gives typed access to a JSON object, notes what is missing, and keeps
// the first error.
type fields struct {
	raw     map[string]any
	model   *Model
	how     Loading
	problem error
}

func (f *fields) fail(format string, args ...any) {
	if f.problem == nil {
		f.problem = fmt.Errorf(format, args...)
	}
}

// has reports whether a field is there and not null.
func (f *fields) has(name string) bool { return f.raw[name] != nil }

// number reads a whole number from 0 to limit.
func (f *fields) number(name string, limit int) (int, bool) {
	v, ok := f.raw[name]
	if !ok || v == nil {
		return 0, false
	}
	if list, isList := v.([]any); isList && len(list) > 0 {
		v = list[0] // some checkpoints write one value for each of their modalities
	}
	n, isNumber := v.(float64)
	if !isNumber || n != math.Trunc(n) || n < 0 || n > float64(limit) {
		f.fail("%s is %s: want a whole number from 0 to %d", name, shortened(v), limit)
		return 0, true
	}
	return int(n), true
}

// requireInt reads a number that nothing can stand in for.
func (f *fields) requireInt(limit int, names ...string) int {
	for _, name := range names {
		if n, ok := f.number(name, limit); ok {
			if n < 1 {
				f.fail("%s is 0", name)
			}
			return n
		}
	}
	f.fail("%s is missing", strings.Join(names, " or "))
	return 0
}

// or reads a number and notes what is taken where it is missing.
func (f *fields) or(name string, limit, value int, source string) int {
	if n, ok := f.number(name, limit); ok {
		return n
	}
	f.assume(name, itoa(value), source)
	return value
}

// opt reads a number whose absence means nothing but 0.
func (f *fields) opt(limit int, names ...string) int {
	for _, name := range names {
		if n, ok := f.number(name, limit); ok {
			return n
		}
	}
	return 0
}

func (f *fields) flag(name string, value bool) bool {
	if v, ok := f.raw[name].(bool); ok {
		return v
	}
	return value
}

func (f *fields) text(name string) string {
	s, _ := f.raw[name].(string)
	return s
}

func (f *fields) object(name string) map[string]any {
	o, _ := f.raw[name].(map[string]any)
	return o
}

// list reads a list of texts.
func (f *fields) list(name string) []string {
	items, _ := f.raw[name].([]any)
	var out []string
	for _, i := range items {
		if s, ok := i.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

// indexes reads a list of layer numbers.
func (f *fields) indexes(name string) map[int]bool {
	items, _ := f.raw[name].([]any)
	out := map[int]bool{}
	for _, i := range items {
		if n, ok := i.(float64); ok && n >= 0 && n < maxLayers {
			out[int(n)] = true
		}
	}
	return out
}

func (f *fields) assume(field, value, source string) {
	f.model.Assumed = append(f.model.Assumed, Assumption{field, value, source})
}

// shortened shows a foreign value, shortened.
func shortened(v any) string {
	s := strings.ToValidUTF8(fmt.Sprint(v), "?")
	if r := []rune(s); len(r) > 40 {
		s = string(r[:40]) + "…"
	}
	return strconv.Quote(s)
}

// decode reads the outermost object.
func decode(content []byte) (map[string]any, error) {
	if len(content) > MaxBytes {
		return nil, fmt.Errorf("%d bytes are more than a config.json can need (limit %d)", len(content), MaxBytes)
	}
	var raw map[string]any
	if err := json.Unmarshal(content, &raw); err != nil {
		return nil, hint.With(fmt.Errorf("no JSON object: %w", err), "give the model's config.json, as Hugging Face has it beside the weights")
	}
	if raw == nil {
		return nil, errors.New("no JSON object: it is null")
	}
	return raw, nil
}
