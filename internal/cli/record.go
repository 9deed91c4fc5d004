package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/sixty-dev/sixty/internal/hint"
	"github.com/sixty-dev/sixty/internal/live"
	"github.com/sixty-dev/sixty/internal/metrics/recording"
	"github.com/sixty-dev/sixty/internal/metrics/scrape"
)

type recordFlags struct {
	output             string
	interval, duration time.Duration
	http               httpFlags
}

const recordLong = `Writes the servers' metrics pages to a file, scrape by scrape, until --duration is
over or ctrl-C. sixty diagnose --recording reads it, here or at a colleague's.

The file holds the pages as they came, and /health, /version and /v1/models. It holds
no credentials and no prompts; it does hold the names of hosts and models.`

const recordExample = `  sixty record http://localhost:8000 -o incident.tar.zst
  sixty record vllm-0:8000 vllm-1:8000 -o incident.tar.zst --interval 5s --duration 30m
  sixty diagnose --recording incident.tar.zst`

func newRecordCommand() *cobra.Command {
	f := &recordFlags{}
	cmd := &cobra.Command{
		Use:     "record URL… -o FILE",
		Short:   "Capture an incident to a file that diagnose reads later",
		Long:    recordLong,
		Example: recordExample,
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runRecord(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), args, f)
		},
	}
	s := cmd.Flags()
	s.StringVarP(&f.output, "output", "o", "", "`file` to write: .tar.zst, .tar.gz, .tar, or a directory (required)")
	s.DurationVar(&f.interval, "interval", time.Second, "time between two scrapes")
	s.DurationVar(&f.duration, "duration", 5*time.Minute, "record for this long")
	f.http.register(s)
	return cmd
}

func runRecord(ctx context.Context, stdout, stderr io.Writer, addresses []string, f *recordFlags) (err error) {
	if f.output == "" {
		return hint.With(errors.New("--output names no file"), "add -o incident.tar.zst")
	}
	if f.interval < minInterval || f.duration < f.interval || f.duration > 24*time.Hour {
		return fmt.Errorf("want --interval of at least %s, and --duration from that to 24h", minInterval)
	}
	targets, err := live.Targets(addresses)
	if err != nil {
		return err
	}
	http, err := f.http.config()
	if err != nil {
		return err
	}
	client, err := scrape.New(scrape.Config{HTTP: http})
	if err != nil {
		return err
	}
	defer client.Close()
	out, err := recording.Create(f.output)
	if err != nil {
		return err
	}

	endsWhenInterrupted(ctx)
	scrapes, stop := context.WithTimeout(ctx, f.duration)
	defer stop()
	r := &recorder{out: out, targets: targets, stop: stop, fails: make([]int, len(targets)), line: newProgress(stderr)}
	var facts sync.WaitGroup
	facts.Go(func() { r.meta(scrapes, client) })
	live.Run(scrapes, client, targets, f.interval, r.take)
	facts.Wait()
	saving(ctx)
	r.line.clear()
	if err := errors.Join(r.err, out.Close()); err != nil {
		return err
	}
	return r.report(stdout, stderr, f.output)
}

// recorder writes pages as they come.
type recorder struct {
	out     *recording.Writer
	targets []live.Target
	stop    func()
	line    *progress

	mu           sync.Mutex
	fails        []int // in a row, by target
	pages, empty int
	bytes        int64
	full         bool
	last, err    error
}

func (r *recorder) take(p live.Page) {
	t := r.targets[p.Target]
	body := p.Body.Raw
	if p.Err != nil {
		body = nil
	}
	r.mu.Lock()
	if r.full = r.full || r.bytes+int64(len(body)) > recording.MaxTotal; r.full {
		r.stop()
		r.mu.Unlock()
		return
	}
	r.bytes += int64(len(body))
	r.mu.Unlock()

	err := r.out.Add(t.Name(), p.Body.At, body)

	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.err = err
		r.stop()
	}
	if p.Err != nil {
		r.last = p.Err
		r.empty++
		r.fails[p.Target]++
	} else {
		r.pages++
		r.fails[p.Target] = 0
	}
	if r.pages == 0 && !hope(r.fails) {
		r.stop()
	}
	r.line.show("recording: %d scrapes, %d failed; ctrl-C ends it", r.pages+r.empty, r.empty)
}

// hope reports whether a target may still answer for the first time.
func hope(fails []int) bool {
	for _, n := range fails {
		if n < hopeless {
			return true
		}
	}
	return false
}

// meta writes what the servers say beside their metrics.
func (r *recorder) meta(ctx context.Context, client *scrape.Client) {
	type servedModel struct {
		ID          string `json:"id"`
		MaxModelLen int    `json:"max_model_len,omitempty"`
	}
	type target struct {
		URL       string        `json:"url"`
		Health    int           `json:"health,omitempty"`
		HealthErr string        `json:"health_error,omitempty"`
		Version   string        `json:"version,omitempty"`
		Models    []servedModel `json:"models,omitempty"`
	}
	facts := make([]target, len(r.targets))
	var wg sync.WaitGroup
	for i, t := range r.targets {
		wg.Go(func() {
			f := client.Facts(ctx, t.URL)
			facts[i] = target{URL: t.Name(), Health: f.Health, Version: f.Version}
			for _, m := range f.Models {
				facts[i].Models = append(facts[i].Models, servedModel(m))
			}
			if f.HealthErr != nil {
				facts[i].HealthErr = f.HealthErr.Error()
			}
		})
	}
	wg.Wait()
	b, err := json.MarshalIndent(map[string]any{"recorded_by": "sixty record", "began": time.Now().UTC().Format(time.RFC3339), "targets": facts}, "", " ")
	if err == nil {
		err = r.out.SetMeta(b)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = errors.Join(r.err, err)
}

// report says what there is now, and what to do with it.
func (r *recorder) report(stdout, stderr io.Writer, path string) error {
	if r.pages == 0 {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			os.Remove(path) // made by this run: an archive is never overwritten
		}
		if r.last == nil {
			return hint.With(errors.New("not one scrape ended in time"), "record for longer")
		}
		return fmt.Errorf("nothing recorded: %w", r.last)
	}
	if r.full {
		notes(stderr, []string{fmt.Sprintf("stopped at %d MiB of pages, the most that a recording may hold; use a longer --interval", recording.MaxTotal>>20)})
	}
	fmt.Fprintf(stdout, "recorded %d scrapes, %d failed, in %s\n", r.pages+r.empty, r.empty, path)
	fmt.Fprintf(stdout, "diagnose it with: sixty diagnose --recording %s\n", path)
	return nil
}
