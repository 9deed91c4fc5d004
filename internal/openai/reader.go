package openai

import (
	"errors"
	"iter"
	"strconv"

	"github.com/mailru/easyjson/jlexer"
)

// A reader walks one JSON object. Its methods return parts of the object's bytes, still escaped, and nothing after an
// error.
type reader struct{ jlexer.Lexer }

func newReader(data []byte) reader {
	r := reader{jlexer.Lexer{Data: data}}
	if !r.IsDelim('{') || !r.Ok() {
		r.AddError(errors.New("not one JSON object"))
	}
	return r
}

// endObject returns an error if the bytes are no JSON object, or go on after it.
func (r *reader) endObject() error {
	r.Consumed()
	return r.Error()
}

// eachMember yields each key of the next value, an object. The loop must read the key's value. Any other value is
// skipped.
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

// eachItem yields before each item of the next value, an array. The loop must read the item. Any other value is
// skipped.
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

// countItems adds the length of an array to n.
func (r *reader) countItems(n *int) {
	for range r.eachItem() {
		r.SkipRecursive()
		*n++
	}
}

// enterObject reports whether the next value is an object. If not, it reads a string into text, or skips the value.
func (r *reader) enterObject(text *[]byte) bool {
	is := r.IsDelim('{')
	if !is {
		r.readText(text)
	}
	return is
}

// readText reads a string. An empty string replaces nil only.
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
