package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
)

// JSON writes a value indented, without HTML escapes.
func JSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	return nil
}

// An Object is a JSON object that keeps its order: names and values alternate. The value None omits its name.
type Object []any

// None is the value of an omitted field.
type None struct{}

// MarshalJSON implements [json.Marshaler].
func (o Object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // the writer of the whole document decides
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

// OrNone returns a value, or None if it is the zero value.
func OrNone[T comparable](v T) any {
	if v == *new(T) {
		return None{}
	}
	return v
}

// OrNull returns a value, or null if it is the zero value.
func OrNull[T comparable](v T) any {
	if v == *new(T) {
		return nil
	}
	return v
}

// Finite returns a number, or null for NaN and the infinities, which JSON cannot express.
func Finite(v float64) any {
	if math.IsInf(v, 0) || math.IsNaN(v) {
		return nil
	}
	return v
}

// Each converts every element. It returns [] for no elements, because null is no list.
func Each[From, To any](in []From, convert func(*From) To) []To {
	out := make([]To, 0, len(in))
	for i := range in {
		out = append(out, convert(&in[i]))
	}
	return out
}
