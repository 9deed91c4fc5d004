package openai

// Request is what matters of a request's body. Model points into the scanned bytes and
// is still JSON-escaped.
type Request struct {
	Model   []byte
	Choices int // n; 0 where it is not given
}

// Scan reads the body of a request into r.
func (r *Request) Scan(data []byte) error {
	*r = Request{}
	return scan(data, func(in *reader) {
		in.each('{', func(key []byte) {
			switch string(key) {
			case "model":
				in.text(&r.Model)
			case "n":
				r.Choices = in.number()
			}
		})
	})
}
