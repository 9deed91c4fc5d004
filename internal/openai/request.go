package openai

import "bytes"

// Request is what matters of a request's body. Its slices point into the
// scanned bytes and are still JSON-escaped.
type Request struct {
	Model        []byte
	Stream       bool
	IncludeUsage bool // stream_options.include_usage
	Choices      int  // n; 0 where it is not given

	options int // index behind the key stream_options, where its value is an object; 0 without
	include int // index of the value of include_usage; 0 without
	length  int // of that value
}

// Scan reads the body of a request into r.
func (r *Request) Scan(data []byte) error {
	*r = Request{}
	return scan(data, func(in *reader) {
		in.each('{', func(key []byte) {
			switch string(key) {
			case "model":
				in.text(&r.Model)
			case "stream":
				r.Stream = string(in.value()) == "true"
			case "n":
				r.Choices = in.number()
			case "stream_options":
				if in.is('{') {
					r.options = int(in.json.InputOffset())
				}
				in.each('{', func(key []byte) {
					if string(key) == "include_usage" {
						v := in.value()
						r.IncludeUsage, r.length = string(v) == "true", len(v)
						r.include = int(in.json.InputOffset()) - len(v)
					}
				})
			}
		})
	})
}

// WithUsage returns the body, which r was scanned from, with
// stream_options.include_usage set, so that the stream ends with the token
// account.
func (r *Request) WithUsage(body []byte) []byte {
	at, cut, text := bytes.IndexByte(body, '{')+1, 0, `"stream_options":{"include_usage":true},`
	switch {
	case r.IncludeUsage:
		return body
	case r.include > 0:
		at, cut, text = r.include, r.length, "true"
	case r.options > 0:
		at, text = r.options+bytes.IndexByte(body[r.options:], '{')+1, `"include_usage":true`
		if rest := bytes.TrimLeft(body[at:], " \n\t\r"); len(rest) > 0 && rest[0] != '}' {
			text += ","
		}
	}
	out := make([]byte, 0, len(body)+len(text))
	out = append(out, body[:at]...)
	out = append(out, text...)
	return append(out, body[at+cut:]...)
}
