package openai

import (
	"errors"
	"iter"
	"strconv"

	"github.com/mailru/easyjson/jlexer"
)

// reader walks one JSON object. What its methods return are parts of the bytes that are walked,
// still escaped; after an error they return nothing.
type reader struct{ jlexer.Lexer }

func newReader(data []byte) reader {
	r := reader{jlexer.Lexer{Data: data}}
	if !r.IsDelim('{') || !r.Ok() {
		r.AddError(errors.New("not one JSON object"))
	}
	return r
}

// end reports what is wrong with the bytes, of which nothing must be left.
func (r *reader) end() error {
	r.Consumed()
	return r.Error()
}

// members yields the keys of the object that comes next; the loop takes every value. Any other
// value is skipped.
func (r *reader) members() iter.Seq[string] {
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

// items stops before each item of the array that comes next; the loop takes it. Any other value is skipped.
func (r *reader) items() iter.Seq[struct{}] {
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

// count adds the number of items of an array.
func (r *reader) count(n *int) {
	for range r.items() {
		r.SkipRecursive()
		*n++
	}
}

// object reports whether an object comes next; if not, a string goes to text, and all else is skipped.
func (r *reader) object(text *[]byte) bool {
	is := r.IsDelim('{')
	if !is {
		r.text(text)
	}
	return is
}

// text reads a string. An empty one takes the place of none.
func (r *reader) text(to *[]byte) {
	if v := r.Raw(); len(v) > 1 && v[0] == '"' && (len(v) > 2 || *to == nil) {
		*to = v[1 : len(v)-1]
	}
}

// number reads a whole number.
func (r *reader) number(to *int) {
	if n, err := strconv.Atoi(string(r.Raw())); err == nil && n >= 0 {
		*to = n
	}
}
