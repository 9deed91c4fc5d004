package openai

import (
	"errors"
	"iter"
	"strconv"

	"github.com/mailru/easyjson/jlexer"
)

// reader walks one JSON object. Its methods return parts of the walked bytes, still escaped, and
// nothing after an error.
type reader struct{ jlexer.Lexer }

func newReader(data []byte) reader {
	r := reader{jlexer.Lexer{Data: data}}
	if !r.IsDelim('{') || !r.Ok() {
		r.AddError(errors.New("not one JSON object"))
	}
	return r
}

// endObject reports an error in the bytes, or bytes after the object.
func (r *reader) endObject() error {
	r.Consumed()
	return r.Error()
}

// eachMember yields the keys of the next value, which the loop must read. A value other than an object is skipped.
func (r *reader) eachMember() iter.Seq[string] {
	return func(yield func(key string) bool) {
		if !r.IsDelim('{') {
			r.SkipRecursive()
			return
		}
		for r.Delim('{'); !r.IsDelim('}'); r.WantComma() {
			key := r.UnsafeFieldName(true)
			if r.WantColon(); !yield(key) {
				return
			}
		}
		r.Delim('}')
	}
}

// eachItem stops before each item of the next array, for the loop to read it. A value other than an
// array is skipped.
func (r *reader) eachItem() iter.Seq[struct{}] {
	return func(yield func(struct{}) bool) {
		if !r.IsDelim('[') {
			r.SkipRecursive()
			return
		}
		for r.Delim('['); !r.IsDelim(']'); r.WantComma() {
			if !yield(struct{}{}) {
				return
			}
		}
		r.Delim(']')
	}
}

// countItems adds the number of items of an array.
func (r *reader) countItems(n *int) {
	for range r.eachItem() {
		r.SkipRecursive()
		*n++
	}
}

// enterObject reports whether an object comes next; otherwise it reads a string into text, and skips other values.
func (r *reader) enterObject(text *[]byte) bool {
	is := r.IsDelim('{')
	if !is {
		r.readText(text)
	}
	return is
}

// readText reads a string. An empty string only replaces nil.
func (r *reader) readText(to *[]byte) {
	if v := r.Raw(); len(v) > 1 && v[0] == '"' && (len(v) > 2 || *to == nil) {
		*to = v[1 : len(v)-1]
	}
}

// readNumber reads a whole number.
func (r *reader) readNumber(to *int) {
	if n, err := strconv.Atoi(string(r.Raw())); err == nil && n >= 0 {
		*to = n
	}
}
