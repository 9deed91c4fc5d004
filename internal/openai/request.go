package openai

import "bytes"

// Request is what matters of a request's body. Its slices point into the
// scanned bytes and are still JSON-escaped.
type Request struct {
	Model        []byte
	Stream       bool
	IncludeUsage bool // stream_options.include_usage
	Choices      int  // n; 0 where it is not given
	MaxTokens    int  // the limit of the answer; 0 where it is not given

	first   int // index behind the opening brace
	options int // index behind the opening brace of stream_options; 0 without
	include int // index of the value of include_usage; 0 without
	length  int // of that value
}

// Scan reads the body of a request into r.
func (r *Request) Scan(data []byte) error {
	*r = Request{}
	s := scanner{b: data}
	if s.request(r) && s.ended() {
		return nil
	}
	return invalid(data)
}

func (s *scanner) request(r *Request) bool {
	s.space()
	if s.peek() != '{' {
		return false
	}
	r.first = s.i + 1
	_, ok := s.members(func(key []byte) (ok bool) {
		switch string(key) {
		case "model":
			return s.optional(&r.Model)
		case "stream":
			r.Stream, ok = s.boolean()
			return ok
		case "n":
			r.Choices, ok = s.number()
			return ok
		case "max_tokens", "max_completion_tokens", "max_output_tokens":
			n, ok := s.number()
			r.MaxTokens = max(r.MaxTokens, n)
			return ok
		case "stream_options":
			return s.streamOptions(r)
		}
		return s.skip()
	})
	return ok
}

func (s *scanner) streamOptions(r *Request) bool {
	s.space()
	at := s.i + 1
	in, ok := s.members(func(key []byte) (ok bool) {
		if string(key) != "include_usage" {
			return s.skip()
		}
		s.space()
		r.include = s.i
		r.IncludeUsage, ok = s.boolean()
		r.length = s.i - r.include
		return ok
	})
	if in {
		r.options = at
	}
	return ok
}

// boolean reads true; any other value is skipped and false.
func (s *scanner) boolean() (value, ok bool) {
	s.space()
	value = bytes.HasPrefix(s.b[s.i:], []byte("true"))
	return value, s.skip()
}

// WithUsage returns the body, which r was scanned from, with
// stream_options.include_usage set, so that the stream ends with the token
// account.
func (r *Request) WithUsage(body []byte) []byte {
	at, cut, text := r.first, 0, `"stream_options":{"include_usage":true},`
	switch {
	case r.IncludeUsage:
		return body
	case r.include > 0:
		at, cut, text = r.include, r.length, "true"
	case r.options > 0:
		at, text = r.options, `"include_usage":true`
		if rest := bytes.TrimLeft(body[at:], " \n\t\r"); len(rest) > 0 && rest[0] != '}' {
			text += ","
		}
	}
	out := make([]byte, 0, len(body)+len(text))
	out = append(out, body[:at]...)
	out = append(out, text...)
	return append(out, body[at+cut:]...)
}
