package openai

// A Request has the fields of a request's body that a measurement needs. Model points into the scanned bytes and is
// still JSON-escaped.
type Request struct {
	Model   []byte
	Choices int // n; 0 if absent
}

// Scan reads the body of a request into r.
func (r *Request) Scan(data []byte) error {
	*r = Request{}
	in := newReader(data)
	for key := range in.eachMember() {
		switch key {
		case "model":
			in.readText(&r.Model)
		case "n":
			in.readNumber(&r.Choices)
		default:
			in.SkipRecursive()
		}
	}
	return in.endObject()
}
