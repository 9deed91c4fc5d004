package planning

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
)

// An Axis is the parameter of a sweep with its values.
type Axis struct {
	Parameter string   `json:"parameter"`
	Values    []string `json:"values"`
}

const sweepHint = "write it as max-num-seqs=16,32,64, or as rate=1:20:1 (from, to, step)"

// sweepable holds the parameters of a sweep besides the engine's settings, with functions that set them.
var sweepable = map[string]func(s *Simulation, value string) error{
	"replicas": func(s *Simulation, v string) (err error) {
		if s.Replicas, err = strconv.Atoi(v); err == nil && s.Replicas < 1 {
			err = fmt.Errorf("%d replicas", s.Replicas)
		}
		return err
	},
	"rate":          func(s *Simulation, v string) error { s.Load.Rate = v; return nil },
	"rate-scale":    func(s *Simulation, v string) error { return parsePositive(&s.Load.RateScale, v) },
	"speed":         func(s *Simulation, v string) error { return parsePositive(&s.Load.Speed, v) },
	"prompt-tokens": func(s *Simulation, v string) error { s.Load.Prompt = v; return nil },
	"output-tokens": func(s *Simulation, v string) error { s.Load.Output = v; return nil },
	"cv": func(s *Simulation, v string) (err error) {
		s.Load.SetCV = true
		s.Load.CV, err = strconv.ParseFloat(v, 64)
		return err
	},
	"prefix-share": func(s *Simulation, v string) (err error) {
		s.Load.SetPrefixShare = true
		s.Load.PrefixShare, err = strconv.ParseFloat(v, 64)
		return err
	},
	"seed": func(s *Simulation, v string) (err error) {
		s.Load.Seed, err = strconv.ParseUint(v, 10, 64)
		return err
	},
}

func parsePositive(to *float64, text string) (err error) {
	if *to, err = strconv.ParseFloat(text, 64); err == nil && !(*to > 0 && *to <= 1e6) {
		err = fmt.Errorf("want a positive number")
	}
	return err
}

// sweepableSettings lists the engine's settings that change the simulation.
var sweepableSettings = []string{
	engine.MaxNumSeqs, engine.MaxNumBatchedTokens, engine.MaxModelLen, engine.BlockSize, engine.NumBlocks,
	engine.ChunkedPrefill, engine.PrefixCaching,
	engine.LongPrefillThreshold, "scheduling-policy", "async-scheduling", engine.Watermark, engine.MaxQueuedRequests,
	engine.MaxQueuedTokens,
}

// Parameters lists the parameters of sweeps.
func Parameters() []string {
	return slices.Concat(sweepableSettings, slices.Sorted(maps.Keys(sweepable)))
}

// maxPoints bounds a sweep. Nobody reads a longer table, and it takes minutes.
const maxPoints = 400

// ParseSweep parses NAME=V1,V2,… or NAME=FROM:TO:STEP.
func ParseSweep(text string) (a Axis, err error) {
	name, list, ok := strings.Cut(text, "=")
	name = strings.ReplaceAll(strings.TrimLeft(strings.TrimSpace(name), "-"), "_", "-")
	if name == engine.NumBlocksOverride {
		name = engine.NumBlocks
	}
	switch {
	case !ok || list == "":
		return a, hint.With(fmt.Errorf("--sweep %q has no values", text), sweepHint)
	case !slices.Contains(Parameters(), name):
		return a, hint.With(fmt.Errorf("--sweep: %q is not a simulated setting", name),
			"one of "+strings.Join(Parameters(), ", "))
	}
	if a.Values, err = sweepValues(name, list); err != nil {
		return a, hint.With(fmt.Errorf("--sweep %q: %w", text, err), sweepHint)
	}
	a.Parameter = name
	if len(a.Values) > maxPoints {
		return a, hint.With(fmt.Errorf("--sweep: %d points, at most %d", len(a.Values), maxPoints), "take larger steps")
	}
	return a, nil
}

// sweepValues parses a list, or from:to:step. A length or a rate may contain colons and commas, as in
// "lognormal:800,1.2": then semicolons separate the values.
func sweepValues(parameter, text string) ([]string, error) {
	separator := ","
	if parameter == "prompt-tokens" || parameter == "output-tokens" || parameter == "rate" {
		if strings.Contains(text, ";") || strings.ContainsAny(text, "abcdefghijklmnopqrstuvwxyz") {
			separator = ";"
		}
	}
	if parts := strings.Split(text, ":"); separator == "," && len(parts) == 3 {
		return sweepRange(parts)
	}
	var values []string
	for v := range strings.SplitSeq(text, separator) {
		if v = strings.TrimSpace(v); v == "" || slices.Contains(values, v) {
			return nil, fmt.Errorf("the value %q is empty or comes twice", v)
		}
		values = append(values, v)
	}
	return values, nil
}

// sweepRange returns the values of from, to and step.
func sweepRange(bounds []string) ([]string, error) {
	var n [3]float64
	for i, p := range bounds {
		v, err := strconv.ParseFloat(strings.TrimSpace(p), 64)
		if err != nil || math.IsInf(v, 0) || math.IsNaN(v) {
			return nil, fmt.Errorf("%q is not a number", p)
		}
		n[i] = v
	}
	from, to, step := n[0], n[1], n[2]
	switch {
	case !(step > 0) || to < from:
		return nil, fmt.Errorf("from %g to %g by %g has no values", from, to, step)
	case (to-from)/step > maxPoints:
		return nil, fmt.Errorf("more than %d values", maxPoints)
	}
	var values []string
	for i := 0; from+float64(i)*step <= to+step*1e-9; i++ {
		values = append(values, strconv.FormatFloat(from+float64(i)*step, 'g', 10, 64))
	}
	return values, nil
}

// atPoint returns the simulation at a value of its sweep, "" without a sweep.
func (s *Simulation) atPoint(value string) (*Simulation, error) {
	one, name := *s, s.Sweep.Parameter
	one.swept = engine.Config{}
	if change, ok := sweepable[name]; ok {
		if err := change(&one, value); err != nil {
			return nil, hint.With(fmt.Errorf("--sweep: %s %q: %w", name, value, err), sweepHint)
		}
	} else if name != "" {
		one.swept.Set(name, value, "--sweep")
	}
	if blocks, ok := one.swept[engine.NumBlocks]; ok {
		one.swept[engine.NumBlocksOverride] = blocks
	}
	return &one, nil
}
