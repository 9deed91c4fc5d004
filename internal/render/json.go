package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
)

// JSON writes a value indented, with nothing escaped for HTML.
func JSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	return nil
}

// Object is one of JSON: names and values in turn, in order. A value of None leaves its name out.
type Object []any

// None is no value.
type None struct{}

// MarshalJSON implements [json.Marshaler].
func (o Object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // which is left to whoever writes the whole
	sep := byte('{')
	for i := 0; i+1 < len(o); i += 2 {
		if _, ok := o[i+1].(None); ok {
			continue
		}
		b.WriteByte(sep)
		fmt.Fprintf(&b, "%q:", o[i])
		if err := enc.Encode(o[i+1]); err != nil {
			return nil, fmt.Errorf("%v: %w", o[i], err)
		}
		sep = ','
	}
	if sep == '{' {
		b.WriteByte(sep)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// OrNone is a value where it is not empty.
func OrNone[T comparable](v T) any {
	if v == *new(T) {
		return None{}
	}
	return v
}

// OrNull is a value where it is not empty, else null.
func OrNull[T comparable](v T) any {
	if v == *new(T) {
		return nil
	}
	return v
}

// Finite is a number, or null where JSON has no value for it: NaN and the infinities.
func Finite(v float64) any {
	if math.IsInf(v, 0) || math.IsNaN(v) {
		return nil
	}
	return v
}

// Each makes something of every element, [] of none: null is no list.
func Each[From, To any](in []From, convert func(*From) To) []To {
	out := make([]To, 0, len(in))
	for i := range in {
		out = append(out, convert(&in[i]))
	}
	return out
}
