package torch

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"
)

// state is the outcome of reading a value.
type state uint8

const (
	whole  state = iota
	cut          // the text ends before the value does
	broken       // the text is not a value
)

// event is the text of one trace event. Its fields are slices of the parser's buffer.
type event struct {
	ph          byte
	cat, name   []byte // without quotes, with escapes
	pid, tid    []byte // as written: numbers, or strings with quotes
	ts, dur     []byte
	args        []byte // the object's text
	nameEscapes bool
}

// Bytes that begin, end or separate values.
const (
	plain byte = iota
	quote
	opening
	closing
	comma
	space
)

// kindOf classifies the bytes that decide where a value ends.
var kindOf = func() (t [256]byte) {
	t['"'] = quote
	t['{'], t['['] = opening, opening
	t['}'], t[']'] = closing, closing
	t[','] = comma
	t[' '], t['\n'], t['\t'], t['\r'] = space, space, space, space
	return t
}()

// skipString returns the length of the string at the beginning of b, with its quotes. It accepts
// control characters.
func skipString(b []byte) (int, state) {
	for i := 1; i < len(b); {
		k := bytes.IndexByte(b[i:], '"')
		if k < 0 {
			break
		}
		end := i + k
		slashes := 0
		for end-1-slashes >= 1 && b[end-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return end + 1, whole
		}
		i = end + 1
	}
	return 0, cut
}

// skipShort does the same as skipString. It is faster for texts of a few bytes.
func skipShort(b []byte) (n int, s state) {
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case '"':
			return i + 1, whole
		case '\\':
			i++
		}
	}
	return 0, cut
}

// skipValue returns the length of the value at the beginning of b. If atEnd, the stream ends with b.
func skipValue(b []byte, atEnd bool) (int, state) {
	if len(b) == 0 {
		return 0, cut
	}
	switch b[0] {
	case '"':
		return skipString(b)
	case '{', '[':
		return skipNested(b)
	}
	for i, c := range b {
		if k := kindOf[c]; k == comma || k == closing || k == space {
			if i == 0 {
				return 0, broken
			}
			return i, whole
		}
	}
	if atEnd {
		return len(b), whole
	}
	return 0, cut
}

// skipNested returns the length of the object or array at the beginning of b.
func skipNested(b []byte) (int, state) {
	depth := 0
	for i := 0; i < len(b); i++ {
		switch kindOf[b[i]] {
		case quote:
			n, s := skipShort(b[i:])
			if s != whole {
				return 0, cut
			}
			i += n - 1
		case opening:
			depth++
			if depth > maxDepth {
				return 0, broken
			}
		case closing:
			depth--
			if depth == 0 {
				return i + 1, whole
			}
		}
	}
	return 0, cut
}

// skipSpace returns the index of the first byte from i on that is no space, or of b's end.
func skipSpace(b []byte, i int) int {
	for i < len(b) && kindOf[b[i]] == space {
		i++
	}
	return i
}

// eachField calls yield with the name and the value of every field of the object at the beginning
// of b, and returns the object's length.
func eachField(b []byte, yield func(key, value []byte)) (int, state) {
	i := 1
	for {
		for i = skipSpace(b, i); i < len(b) && b[i] == ','; {
			i = skipSpace(b, i+1)
		}
		if i >= len(b) {
			return 0, cut
		}
		switch b[i] {
		case '}':
			return i + 1, whole
		case '"':
		default:
			return 0, broken
		}
		n, s := skipShort(b[i:])
		if s != whole {
			return 0, s
		}
		key := b[i+1 : i+n-1]
		if i = skipSpace(b, i+n); i >= len(b) {
			return 0, cut
		}
		if b[i] != ':' {
			return 0, broken
		}
		i = skipSpace(b, i+1)
		n, s = skipValue(b[i:], false)
		if s != whole {
			return 0, s
		}
		yield(key, b[i:i+n])
		i += n
	}
}

func (e *event) parseEvent(b []byte) (int, state) {
	*e = event{}
	return eachField(b, e.setField)
}

func (e *event) setField(key, v []byte) {
	switch string(key) {
	case "ph":
		if len(v) == 3 && v[0] == '"' {
			e.ph = v[1]
		}
	case "ts":
		e.ts = v
	case "dur":
		e.dur = v
	case "pid":
		e.pid = v
	case "tid":
		e.tid = v
	case "cat":
		e.cat = rawText(v)
	case "name":
		e.name = rawText(v)
		e.nameEscapes = bytes.IndexByte(v, '\\') >= 0
	case "args":
		if v[0] == '{' {
			e.args = v
		}
	}
}

// rawText is a string's text between its quotes, with escapes.
func rawText(v []byte) []byte {
	if len(v) >= 2 && v[0] == '"' {
		return v[1 : len(v)-1]
	}
	return v
}

func unquoteString(v []byte) string {
	var s string
	if json.Unmarshal(v, &s) == nil {
		return s
	}
	return string(rawText(v))
}

func unescapeName(v []byte) []byte {
	if s := ""; json.Unmarshal([]byte(`"`+string(v)+`"`), &s) == nil {
		return []byte(s)
	}
	return v
}

// parseMicros reads a time in microseconds, with any number of decimals, as nanoseconds. It does not use floating
// point, because microseconds since 1970 with three decimals have more digits than a float64.
func parseMicros(v []byte) (int64, bool) {
	v = rawText(v)
	i, neg := 0, false
	if len(v) > 0 && v[0] == '-' {
		neg, i = true, 1
	}
	start := i
	var n int64
	for ; i < len(v) && v[i]-'0' <= 9; i++ {
		if n > math.MaxInt64/10000 {
			return parseFloatMicros(v)
		}
		n = n*10 + int64(v[i]-'0')
	}
	if i == start {
		return parseFloatMicros(v)
	}
	if n > math.MaxInt64/1000-1 {
		return 0, false
	}
	n *= 1000
	if i < len(v) && v[i] == '.' {
		i++
		for unit := int64(100); i < len(v) && v[i]-'0' <= 9; i++ {
			n += int64(v[i]-'0') * unit
			unit /= 10
		}
	}
	if i < len(v) {
		return parseFloatMicros(v)
	}
	if neg {
		n = -n
	}
	return n, true
}

// parseFloatMicros reads a time that is not a plain decimal: with an exponent, or with too many digits.
func parseFloatMicros(v []byte) (int64, bool) {
	f, err := strconv.ParseFloat(string(v), 64)
	if err != nil || math.Abs(f) > math.MaxInt64/1000-1 || math.IsNaN(f) {
		return 0, false
	}
	return int64(f * 1000), true
}

// parseInt64 reads a whole number, also one at the end of a string ("stream 7").
func parseInt64(v []byte) (int64, bool) {
	if len(v) > 0 && v[0] == '"' {
		v = rawText(v)
		if i := bytes.IndexAny(v, "0123456789"); i > 0 && v[i-1] != '-' {
			v = v[i:]
		}
	}
	var n int64
	neg := false
	if len(v) > 1 && v[0] == '-' {
		neg, v = true, v[1:]
	}
	if len(v) == 0 || len(v) > 18 {
		return parseLongInt(v, neg)
	}
	for _, c := range v {
		if c-'0' > 9 {
			return parseLongInt(v, neg)
		}
		n = n*10 + int64(c-'0')
	}
	if neg {
		n = -n
	}
	return n, true
}

// parseLongInt reads a number that has more than 18 digits, or a fraction or an exponent.
func parseLongInt(v []byte, neg bool) (int64, bool) {
	if u, err := strconv.ParseUint(string(v), 10, 64); err == nil {
		n := int64(u) //nolint:gosec // addresses and ids wrap
		if neg {
			n = -n
		}
		return n, true
	}
	f, err := strconv.ParseFloat(strings.TrimSpace(string(v)), 64)
	if err != nil || math.IsNaN(f) || math.Abs(f) > math.MaxInt64/2 {
		return 0, false
	}
	if neg {
		f = -f
	}
	return int64(f), true
}
