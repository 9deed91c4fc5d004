package source

import (
	"strings"
	"testing"
	"time"
)

func TestMoment(t *testing.T) {
	first := time.Unix(1795236659, 0)
	s := Span{First: first, Last: first.Add(2 * time.Minute)}
	for _, tt := range []struct {
		text string
		want time.Time
		err  string
	}{
		{"", s.Last, ""},
		{"+90s", first.Add(90 * time.Second), ""},
		{"-30s", first.Add(90 * time.Second), ""},
		{"1795236700", time.Unix(1795236700, 0), ""},
		{"1795236700.5", time.UnixMilli(1795236700500), ""},
		{"2026-11-21T04:51:40Z", time.Date(2026, 11, 21, 4, 51, 40, 0, time.UTC), ""},
		{"2026-11-21T06:51:40+02:00", time.Date(2026, 11, 21, 4, 51, 40, 0, time.UTC), ""},
		{"noon", time.Time{}, "is not a time"},
		{"+ten", time.Time{}, "is not a duration"},
		{"NaN", time.Time{}, "is not a time"},
		{"1e300", time.Time{}, "is not a time"},
	} {
		got, err := s.ParseTime(tt.text)
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%q: error %v, want %q", tt.text, err, tt.err)
			}
			continue
		}
		if err != nil || !got.Equal(tt.want) {
			t.Errorf("%q: %v, %v; want %v", tt.text, got, err, tt.want)
		}
	}
}

func TestBaseline(t *testing.T) {
	first := time.Unix(1795236659, 0)
	s := Span{First: first, Last: first.Add(2 * time.Minute)}
	window := s.Last.Add(-30 * time.Second)
	for _, tt := range []struct {
		text     string
		from, to time.Duration // from the beginning
		err      string
	}{
		{"60s", 30 * time.Second, 90 * time.Second, ""},
		{"1h", 0, 90 * time.Second, ""}, // no more than there is
		{"+0s/+50s", 0, 50 * time.Second, ""},
		{"-100s/-60s", 20 * time.Second, time.Minute, ""},
		{"+50s/+10s", 0, 0, "ends"},
		{"-1s", 0, 0, "neither a duration"},
		{"0/1000", 0, 0, "the recording has no scrape"},
	} {
		got, err := s.Baseline(tt.text, window)
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%q: error %v, want %q", tt.text, err, tt.err)
			}
			continue
		}
		if err != nil || !got.From.Equal(first.Add(tt.from)) || !got.To.Equal(first.Add(tt.to)) {
			t.Errorf("%q: %v to %v, %v; want +%v to +%v", tt.text, got.From, got.To, err, tt.from, tt.to)
		}
	}
}
