package openai

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// reader walks one JSON object. Each of its methods takes the value that comes next if it is of
// the method's kind, and leaves any other, which is skipped then. What it returns are parts of
// the bytes that are walked, still escaped.
type reader struct {
	json *jsontext.Decoder
	buf  bytes.Buffer
	data []byte
	err  error // the first; nothing is read after it
}

// lenient is what clients make of JSON: of a key that comes twice the last is taken, and bytes
// that are no UTF-8 pass.
var lenient = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

var readers = sync.Pool{New: func() any { return &reader{json: jsontext.NewDecoder(new(bytes.Buffer), lenient...)} }}

var errObject = errors.New("not one JSON object")

// scan walks data, which must be one JSON object.
func scan(data []byte, walk func(*reader)) error {
	r := readers.Get().(*reader)
	defer readers.Put(r)
	r.data, r.buf, r.err = data, *bytes.NewBuffer(data), nil
	r.json.Reset(&r.buf, lenient...)
	if !r.is('{') {
		return errObject
	}
	walk(r)
	if _, err := r.json.ReadToken(); r.err != nil || err != io.EOF {
		return errObject
	}
	return nil
}

// is reports whether the next value is of a kind: 'n', 't', 'f', '"', '0', '{' or '['.
func (r *reader) is(kind jsontext.Kind) bool { return r.err == nil && r.json.PeekKind() == kind }

// value returns the next value as it is written.
func (r *reader) value() (v jsontext.Value) {
	if r.err != nil {
		return nil
	}
	v, r.err = r.json.ReadValue()
	end := int(r.json.InputOffset())
	return r.data[end-len(v) : end]
}

// unquoted returns the next string, or key, without its quotes.
func (r *reader) unquoted() []byte {
	v := r.value()
	return v[min(1, len(v)):max(len(v)-1, 0)]
}

// text reads a string, and reports whether it is not empty. An empty one takes the place of none.
func (r *reader) text(to *[]byte) bool {
	if !r.is('"') {
		return false
	}
	v := r.unquoted()
	if len(v) > 0 || *to == nil {
		*to = v
	}
	return len(v) > 0
}

// number reads a whole number; any other is 0.
func (r *reader) number() int {
	if !r.is('0') {
		return 0
	}
	n, err := strconv.ParseUint(string(r.value()), 10, 62)
	if err != nil {
		return 0
	}
	return int(n)
}

// each calls read for every member of an object, with its key, or every item of an array, which
// opens as said, and returns how many there are.
func (r *reader) each(open jsontext.Kind, read func(key []byte)) (n int) {
	if !r.is(open) {
		return 0
	}
	_, r.err = r.json.ReadToken()
	for ; r.err == nil && !r.is(open+2); n++ { // "}" and "]"
		key := []byte(nil)
		if open == '{' {
			key = r.unquoted()
		}
		at := r.json.InputOffset()
		if r.err == nil && read != nil {
			read(key)
		}
		if r.err == nil && r.json.InputOffset() == at {
			r.err = r.json.SkipValue()
		}
	}
	if r.err == nil {
		_, r.err = r.json.ReadToken()
	}
	return n
}
