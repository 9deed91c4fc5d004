package command

import (
	"time"

	"github.com/prometheus/common/model"
	"github.com/spf13/pflag"
)

// duration is a flag's time, as Go or as Prometheus writes it: 90s, 7d.
type duration time.Duration

// DurationVar adds a flag of a duration that may be written in days, weeks or years.
func DurationVar(s *pflag.FlagSet, to *time.Duration, name string, usual time.Duration, usage string) {
	*to = usual
	s.Var((*duration)(to), name, usage)
}

func (d *duration) String() string { return model.Duration(*d).String() }
func (d *duration) Type() string   { return "duration" }

// Set reads a text.
func (d *duration) Set(text string) error {
	if v, err := time.ParseDuration(text); err == nil {
		*d = duration(v)
		return nil
	}
	v, err := model.ParseDuration(text)
	*d = duration(v)
	return err
}
