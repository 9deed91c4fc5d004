package source

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/base/period"
)

const momentForms = "write a time as RFC 3339 (2026-11-21T10:00:00Z), as Unix seconds, as +90s from the start of a recording, or as -30s from its end"

// A Span is the time that a source covers. First is zero if it has no beginning.
type Span struct{ First, Last time.Time }

// ParseTime reads a point in time. Empty means the end.
func (s Span) ParseTime(text string) (time.Time, error) {
	text = strings.TrimSpace(text)
	switch {
	case text == "":
		return s.Last, nil
	case text[0] == '+' || text[0] == '-':
		d, err := time.ParseDuration(text)
		switch {
		case err != nil:
			return time.Time{}, hint.With(fmt.Errorf("time %q is not a duration such as +90s or -30s", text),
				momentForms)
		case text[0] == '-':
			return s.Last.Add(d), nil
		case s.First.IsZero():
			return time.Time{}, hint.With(
				fmt.Errorf("time %q is relative to the start of a recording, and there is none", text),
				"use a time relative to now, such as -5m")
		}
		return s.First.Add(d), nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	if v, err := strconv.ParseFloat(text, 64); err == nil && v >= 0 && v < 253402300800 { // the year 10000
		return time.UnixMilli(int64(v * 1000)), nil
	}
	return time.Time{}, hint.With(fmt.Errorf("%q is not a time", text), momentForms)
}

// At reads --at and refuses a time that a recording does not cover.
func (s Span) At(text string) (time.Time, error) { return s.Moment("--at", text) }

// Moment reads a time that the named argument gives, as At does.
func (s Span) Moment(name, text string) (time.Time, error) {
	t, err := s.ParseTime(text)
	if err != nil {
		return t, fmt.Errorf("%s: %w", name, err)
	}
	const slack = 10 * time.Second // for clock skew, and times rounded by hand
	if !s.First.IsZero() && (t.Before(s.First) || t.After(s.Last.Add(slack))) {
		return t, hint.With(fmt.Errorf("%s: %s is outside the recording", name, FormatTime(t)),
			fmt.Sprintf("choose a time from %s to %s, or leave %s out", FormatTime(s.First), FormatTime(s.Last), name))
	}
	if t.After(s.Last) && !s.First.IsZero() {
		t = s.Last
	}
	return t, nil
}

// Baseline reads a healthy time: a duration, which ends where the window begins, or FROM/TO.
func (s Span) Baseline(text string, windowFrom time.Time) (period.Period, error) {
	var r period.Period
	if text == "" {
		return r, nil
	}
	from, to, isRange := strings.Cut(text, "/")
	if isRange {
		var errFrom, errTo error
		r.From, errFrom = s.ParseTime(from)
		r.To, errTo = s.ParseTime(to)
		if err := errors.Join(errFrom, errTo); err != nil {
			return r, hint.With(err, momentForms)
		}
	} else {
		d, err := ParseDuration(text)
		if err != nil || d <= 0 {
			return r, hint.With(fmt.Errorf("%q is neither a duration such as 10m nor FROM/TO", text), momentForms)
		}
		r = period.Period{From: windowFrom.Add(-d), To: windowFrom}
	}
	switch {
	case !r.From.Before(r.To):
		return r, fmt.Errorf("it ends (%s) before it begins (%s)", FormatTime(r.To), FormatTime(r.From))
	case !s.First.IsZero() && (!s.First.Before(r.To) || r.From.After(s.Last)):
		return r, hint.With(fmt.Errorf("the recording has no scrape from %s to %s", FormatTime(r.From),
			FormatTime(r.To)),
			fmt.Sprintf("choose times from %s to %s", FormatTime(s.First), FormatTime(s.Last)))
	}
	if r.From.Before(s.First) {
		r.From = s.First
	}
	return r, nil
}

// ParseDuration reads a duration as Go or as Prometheus writes it: 90s, 7d.
func ParseDuration(text string) (time.Duration, error) {
	if d, err := time.ParseDuration(text); err == nil {
		return d, nil
	}
	d, err := model.ParseDuration(text)
	return time.Duration(d), err
}

// FormatTime writes a time in the syntax of flags.
func FormatTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }
