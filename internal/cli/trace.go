package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/cli/command"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/diagnose/source"
	"github.com/sixty-dev/sixty/internal/pathologies"
	"github.com/sixty-dev/sixty/internal/report/tracereport"
	"github.com/sixty-dev/sixty/internal/trace"
	"github.com/sixty-dev/sixty/internal/trace/collected"
)

type traceFlags struct {
	source source.Flags
	id     string
	output command.Output
}

func newTraceCommand() *cobra.Command {
	f := &traceFlags{}
	cmd := &cobra.Command{Use: "trace", RunE: f.run}
	s := cmd.Flags()
	f.source.AddFlags(s)
	if flag := s.Lookup("recording"); flag != nil {
		flag.Hidden, flag.Usage = false, "`file` of sixty record that covers the time of the request"
	}
	s.StringVar(&f.id, "id", "",
		"the request: its trace `id` or engine id, or a prefix of either (default: the slowest in the files)")
	f.output.AddFlags(s, "text", "json", "markdown", "html")
	f.output.AddFull(s, "show all steps, and the source of each normal value")
	return cmd
}

func (f *traceFlags) run(cmd *cobra.Command, args []string) error {
	ctx, stderr := cmd.Context(), cmd.ErrOrStderr()
	if err := f.source.Resolve(nil); err != nil {
		return err
	}
	urls := slices.ContainsFunc(args, collected.IsURL)
	switch {
	case len(args) == 0:
		return hint.With(errors.New("no traces"),
			"give a file of the collector's file exporter, or the URL of Tempo, Jaeger or sixty serve and --id")
	case urls && len(args) > 1:
		return errors.New("give files, or the URL of one server")
	case urls && f.id == "":
		return hint.With(errors.New("a server returns one trace at a time"),
			"name it with --id; sixty serve lists slow requests at /api/v1/traces, Tempo and Jaeger have a search")
	case f.source.SourceCount() > 1:
		return errors.New("give --recording or --prometheus, not both")
	}
	r, err := f.report(ctx, stderr, args, urls)
	if err != nil {
		return err
	}
	return f.output.Report(cmd.OutOrStdout(), tracereport.Document(r), r)
}

func (f *traceFlags) report(ctx context.Context, stderr io.Writer, args []string, urls bool) (r *trace.Report,
	err error) {
	var spans []trace.Span
	if urls {
		if spans, r, err = collected.Fetch(ctx, args[0], f.id, f.source.HTTP); err != nil || r != nil {
			return r, err
		}
	} else if spans, err = collected.Files(args); err != nil {
		return nil, err
	}
	all := trace.Group(spans)
	chosen, note, err := chooseTrace(all, f.id)
	if err != nil {
		return nil, err
	}
	others := trace.NewPopulation(all)
	r = trace.Judge(chosen, others, nil)
	if f.source.SourceCount() > 0 && r.At != nil {
		err = withSource(ctx, stderr, f.source.Spec, func(s *source.Source) error {
			d, err := f.diagnose(ctx, s, r)
			if err != nil {
				return err
			}
			r = trace.JudgeIn(chosen, others, &d)
			return nil
		})
	}
	if note != "" {
		r.Notes = append(r.Notes, note)
	}
	return r, err
}

// diagnose judges the servers in the middle of the slow phase, or at the recording's end if that is earlier.
func (f *traceFlags) diagnose(ctx context.Context, s *source.Source, r *trace.Report) (d diagnose.Diagnosis,
	err error) {
	ctx, cancel := context.WithTimeout(ctx, defaultTimeout)
	defer cancel()
	at, last := *r.At, s.Span().Last
	if at.After(last) && r.Began.Add(time.Duration(r.Blame.BeginS*1e9)).Before(last) {
		at = last
	}
	if span := s.Span(); !span.First.IsZero() && (at.Before(span.First) || at.After(span.Last)) {
		return d, hint.With(fmt.Errorf("the request was at %s, outside the recording", source.FormatTime(at)),
			fmt.Sprintf("it covers %s to %s: give a recording of that time, or --prometheus",
				source.FormatTime(span.First), source.FormatTime(span.Last)))
	}
	o, err := s.Options(ctx, at)
	if err != nil {
		return d, err
	}
	o.Pathologies = pathologies.All()
	return s.Diagnose(ctx, o)
}

// chooseTrace returns the request whose id begins with id, or the slowest with a note if id is "".
func chooseTrace(all []*trace.Trace, id string) (chosen *trace.Trace, note string, err error) {
	var found []*trace.Trace
	for _, t := range all {
		hasID := func(s trace.Span) bool { return strings.HasPrefix(s.Request, id) }
		if id == "" && t.OfRequest() ||
			id != "" && (strings.HasPrefix(t.ID, strings.ToLower(id)) || slices.ContainsFunc(t.Spans, hasID)) {
			found = append(found, t)
		}
	}
	switch {
	case len(found) == 0 && id == "":
		return nil, "", hint.With(errors.New("there is no request in these traces"),
			"spans of requests have the kind server, or a span name of vLLM, SGLang, llm-d or sixty gateway")
	case len(found) == 0:
		return nil, "", hint.With(fmt.Errorf("no request has the id %s", id),
			"without --id, the slowest in the files is shown")
	case len(found) == 1:
		return found[0], "", nil
	case id != "":
		return nil, "", fmt.Errorf("%d request ids begin with %s: give more of the id", len(found), id)
	}
	slowest := slices.MaxFunc(found, func(a, b *trace.Trace) int { return cmp.Compare(a.Took(), b.Took()) })
	return slowest, fmt.Sprintf("the slowest of %d requests; --id shows another", len(found)), nil
}
