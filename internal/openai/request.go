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
	in := newReader(data)
	for key := range in.members() {
		switch key {
		case "model":
			in.text(&r.Model)
		case "n":
			in.number(&r.Choices)
		default:
			in.SkipRecursive()
		}
	}
	return in.end()
}
