// Package hint attaches a way out to an error: an action that the user can take. The command line prints the error as
// "error: …" and the hint as "try: …".
package hint

import "errors"

type hinted struct {
	error
	hint string
}

func (h *hinted) Unwrap() error { return h.error }

// With returns err carrying a way out, such as "pass --token-file". The text
// is a sentence without a final period. A nil err stays nil.
func With(err error, hint string) error {
	if err == nil {
		return nil
	}
	return &hinted{err, hint}
}

// Of returns the outermost hint of an error, or "".
func Of(err error) string {
	var h *hinted
	if errors.As(err, &h) {
		return h.hint
	}
	return ""
}

// Or attaches a hint to an error that has none yet.
func Or(err error, hint string) error {
	if Of(err) != "" {
		return err
	}
	return With(err, hint)
}
