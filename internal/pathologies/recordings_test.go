package pathologies_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/template"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/diagnose/segments"
	"github.com/sixty-dev/sixty/internal/metrics"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
	"github.com/sixty-dev/sixty/internal/metrics/recording"
	"github.com/sixty-dev/sixty/internal/pathologies"
	"github.com/sixty-dev/sixty/internal/report/reporttest"
)

var update = flag.Bool("update", false, "rewrite the golden files and docs/lab/accuracy.md")

const recordings = "../../testdata/recordings"

// truth describes what was done to a recorded server: testdata/recordings/README.md.
type truth struct {
	Verdict string
	Accept  []string
	Phases  []struct {
		Name    string
		FromMS  int64 `json:"from_unix_ms"`
		ToMS    int64 `json:"to_unix_ms"`
		OnsetMS int64 `json:"onset_unix_ms"` // when the fault began, if later than the phase
		Verdict string
		Accept  []string
	}
}

// onset returns when the fault of a phase began to hurt.
func (tr *truth) onset(phase int) time.Time {
	p := tr.Phases[phase]
	return time.UnixMilli(max(p.FromMS, p.OnsetMS))
}

// accepted returns the verdicts that are right at the end of a phase. The recording's own verdict is that of the last
// phase with the fault; while the fault grows, healthy is right as well.
func (tr *truth) accepted(phase int) []string {
	p := tr.Phases[phase]
	all := []string{diagnose.Healthy, diagnose.Idle}
	switch {
	case phase == tr.faulty():
		all = slices.Concat(tr.verdicts(), tr.Accept, p.Accept)
	case p.Verdict != "":
		all = append([]string{p.Verdict}, p.Accept...)
	case p.Name == "growing":
		all = slices.Concat(all, tr.verdicts(), tr.Accept)
	}
	var once []string
	for _, v := range all {
		if !slices.Contains(once, v) {
			once = append(once, v)
		}
	}
	return once
}

// verdicts returns the names in the recording's own verdict, without the remarks after them.
func (tr *truth) verdicts() []string {
	names, _, _ := strings.Cut(tr.Verdict, ";")
	names, _, _ = strings.Cut(names, " (")
	return strings.Split(names, " or ")
}

// faulty returns the last phase that the recording's verdict is about.
func (tr *truth) faulty() int {
	last := len(tr.Phases) - 1
	for last > 0 && tr.Phases[last].Name == "recovered" && tr.Phases[last].Verdict == "" {
		last--
	}
	return last
}

func quiet(verdict string) bool { return verdict == diagnose.Healthy || verdict == diagnose.Idle }

// A played recording can be diagnosed at any moment.
type played struct {
	name  string
	truth truth
	store *embedded.Store
	first time.Time
	// created is the beginning of the counters, zero when unknown.
	created time.Time
	// interval is the time between two scrapes; zero is a second.
	interval time.Duration
	// memory holds the diagnoses of a shared recording; nil if it is not shared.
	memory map[time.Time]diagnose.Diagnosis
	mu     sync.Mutex
}

// shared holds the recordings that tests share, by file and thinning step, 0 for all scrapes. One pass over a file
// loads all of its steps.
var shared struct {
	sync.Mutex
	files map[string]*sharedFile
}

type sharedFile struct {
	sync.Mutex
	by map[time.Duration]*played
}

// sharedSteps are the thinning steps of shared recordings.
var sharedSteps = []time.Duration{0, 15 * time.Second}

// play loads a recording and its truth, once for all tests. They must not write to its store.
func play(t *testing.T, file string) *played { return playThinned(t, file, 0) }

// playThinned is play with the scrapes of a slower scrape interval.
func playThinned(t *testing.T, file string, step time.Duration) *played {
	t.Helper()
	if !slices.Contains(sharedSteps, step) {
		return thin(t, file, step, 0)
	}
	shared.Lock()
	f := shared.files[file]
	if f == nil {
		f = &sharedFile{}
		shared.files[file] = f
	}
	shared.Unlock()
	f.Lock()
	defer f.Unlock()
	if f.by == nil {
		f.by = map[time.Duration]*played{}
		keep := make([]func(recording.Scrape) bool, len(sharedSteps))
		for i, step := range sharedSteps {
			keep[i] = everyStep(step, 0)
		}
		for i, p := range load(t, file, keep...) {
			p.interval, p.memory = sharedSteps[i], map[time.Time]diagnose.Diagnosis{}
			f.by[sharedSteps[i]] = p
		}
	}
	return f.by[step]
}

func TestMain(m *testing.M) {
	flag.Parse()
	shared.files = map[string]*sharedFile{}
	code := m.Run()
	for _, f := range shared.files {
		for _, p := range f.by {
			p.store.Close()
		}
	}
	os.Exit(code)
}

func (p *played) diagnose(t *testing.T, at time.Time) diagnose.Diagnosis {
	t.Helper()
	p.mu.Lock()
	d, ok := p.memory[at]
	p.mu.Unlock()
	if ok {
		return d
	}
	d = p.watched(t, at, nil)
	if p.memory != nil {
		p.mu.Lock()
		p.memory[at] = d
		p.mu.Unlock()
	}
	return d
}

// watched diagnoses as a monitor does, with the memory of earlier diagnoses.
func (p *played) watched(t *testing.T, at time.Time, m *diagnose.Memory) diagnose.Diagnosis {
	t.Helper()
	return run(t, p.store, diagnose.Options{At: at, First: p.first, Created: p.created,
		Interval: max(p.interval, time.Second), Every: true, Memory: m})
}

// run diagnoses with the whole catalogue, unless the options have another one.
func run(t testing.TB, q metrics.Querier, o diagnose.Options) diagnose.Diagnosis {
	t.Helper()
	if o.Pathologies == nil {
		o.Pathologies = pathologies.All()
	}
	d, err := diagnose.Run(context.Background(), q, o)
	if err != nil {
		t.Fatalf("at %s: %v", o.At, err)
	}
	return d
}

// take appends a scrape's page; an empty page is a failed scrape.
func (p *played) take(target embedded.Target, at time.Time, page []byte, took time.Duration) (err error) {
	if p.first.IsZero() {
		p.first = at
	}
	if len(page) == 0 {
		return p.store.AppendFailureAfter(target, at, took)
	}
	_, err = p.store.Append(target, at, page, "", took)
	return err
}

// tellBirths notes when the first counter was created.
func (p *played) tellBirths() {
	for _, target := range p.store.Targets() {
		if at, ok := p.store.FirstCreated(target); ok && (p.created.IsZero() || at.Before(p.created)) {
			p.created = at
		}
	}
}

// ownFiles lists the recordings of the repository.
func ownFiles(t *testing.T) []string {
	t.Helper()
	own, err := filepath.Glob(recordings + "/*.tar.zst")
	if err != nil || len(own) == 0 {
		t.Fatalf("no recordings in %s: %v", recordings, err)
	}
	return own
}

// kinds lists one recording for each sequence of verdicts, such as healthy and then saturation, for tests of code that
// treats all recordings alike. A full measurement takes all.
func kinds(t *testing.T) []string {
	t.Helper()
	if accuracyIsFull() {
		return files(t)
	}
	known := map[string]bool{}
	return slices.DeleteFunc(ownFiles(t), func(file string) bool {
		var p played
		p.readTruth(t, file)
		var course []string
		for i := range p.truth.Phases {
			course = append(course, p.truth.accepted(i)[0])
		}
		seen := known[strings.Join(course, ", ")]
		known[strings.Join(course, ", ")] = true
		return seen
	})
}

// files lists the recordings of the repository, and in a full measurement those beside it.
func files(t *testing.T) []string {
	t.Helper()
	list := ownFiles(t)
	if accuracyIsFull() {
		list = append(list, filesBeside(t)...)
	}
	return list
}

// filesBeside lists the recordings in the folder shared beside the repository.
func filesBeside(t *testing.T) []string {
	t.Helper()
	root := os.Getenv("SIXTY_SHARED")
	if root == "" {
		root = "../../../shared"
	}
	list, err := filepath.Glob(filepath.Join(root, "recordings", "*.tar.zst"))
	must.Succeed(t, err)
	return list
}

// The goals of verdicts, over all recordings together.
const (
	minRight = 0.95 // the share of phases whose verdict is right at the end
	minEarly = 0.80 // the share of sick phases whose verdict is right within earlyBy of the beginning
	earlyBy  = 15 * time.Second
	// mostOthers is the largest share of false alarms at quiet moments of other recordings, some of which were made on
	// a busy machine.
	mostOthers = 0.05
)

// A tally counts how often the verdicts of some recordings were right.
type tally struct {
	right, phases   int // phases that are right at their end, and all
	early, sick     int // sick phases that are right within earlyBy, and all
	alarms, moments int // false alarms, and all moments of quiet phases
	wrong           []string
}

func (c tally) String() string {
	return fmt.Sprintf("right at the end of %d of %d phases; the fault named within %s of its beginning in %d of %d sick phases; %d false alarms at %d moments, five seconds apart, of the quiet phases",
		c.right, c.phases, earlyBy, c.early, c.sick, c.alarms, c.moments)
}

// TestVerdicts diagnoses every recording at the end of each phase, finds the moment at which each fault is first named,
// and counts false alarms in healthy phases. docs/lab/accuracy.md has the results of the repository's own recordings.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	var table bytes.Buffer
	var own, others tally
	for _, file := range files(t) {
		c := &others
		if strings.HasPrefix(file, recordings) {
			c = &own
		}
		p := play(t, file)
		for phase := range p.truth.Phases {
			if row := p.score(t, phase, c); c == &own {
				table.WriteString(row)
			}
		}
	}
	t.Logf("own: %s", own)
	t.Logf("others: %s", others)
	for _, a := range own.wrong {
		t.Error(a)
	}
	for _, a := range others.wrong {
		t.Log(a)
	}
	if float64(others.alarms) > mostOthers*float64(others.moments) {
		t.Errorf("%d false alarms at %d quiet moments of the other recordings", others.alarms, others.moments)
	}
	if right, phases := own.right+others.right, own.phases+others.phases; float64(right) < minRight*float64(phases) {
		t.Errorf("right in %d of %d phases, want %.0f %%", right, phases, 100*minRight)
	}
	if early, sick := own.early+others.early, own.sick+others.sick; float64(early) < minEarly*float64(sick) {
		t.Errorf("right within %s in %d of %d sick phases, want %.0f %%", earlyBy, early, sick, 100*minEarly)
	}
	if *update {
		writeAccuracy(t, table.String(), own.String())
	}
}

// score judges the verdicts of one phase and returns its row of the table.
func (p *played) score(t *testing.T, i int, c *tally) string {
	phase, want := p.truth.Phases[i], p.truth.accepted(i)
	d := p.diagnose(t, time.UnixMilli(phase.ToMS))
	reporttest.FitsTheScreen(t, p.name+"/"+phase.Name, d)
	reporttest.PlainWords(t, p.name+"/"+phase.Name, d)
	got := d.Verdict
	c.phases++
	if slices.Contains(want, got.ID) {
		c.right++
	} else {
		t.Logf("%s, end of phase %s: %s, want %s", p.name, phase.Name, got.ID, want)
	}
	var when string
	if quiet(want[0]) {
		moments, alarms := p.falseAlarms(t, i, want)
		c.moments += moments
		c.alarms += len(alarms)
		when = fmt.Sprintf("%d false alarms", len(alarms))
		c.wrong = append(c.wrong, alarms...)
	} else {
		c.sick++
		after, found := p.firstRight(t, i, want)
		when = "not before the end"
		if found {
			when = after.String()
		}
		if found && after <= earlyBy {
			c.early++
		}
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %.2f | %s |\n", p.name, phase.Name, strings.Join(want, " or "), got.ID,
		got.Confidence, when)
}

// firstRight returns how long after the beginning of a phase its verdict is first given.
func (p *played) firstRight(t *testing.T, phase int, want []string) (time.Duration, bool) {
	from, to := p.truth.Phases[phase].FromMS, p.truth.Phases[phase].ToMS
	for ms := from + 3000; ms <= to; ms += 3000 {
		if slices.Contains(want, p.diagnose(t, time.UnixMilli(ms)).Verdict.ID) {
			return time.Duration(ms-from) * time.Millisecond, true
		}
	}
	return 0, false
}

// falseAlarms diagnoses a quiet phase every five seconds, from twenty seconds on: until then the phase before may still
// be in the window.
func (p *played) falseAlarms(t *testing.T, phase int, want []string) (moments int, alarms []string) {
	from, to := p.truth.Phases[phase].FromMS, p.truth.Phases[phase].ToMS
	for ms := from + 20000; ms <= to; ms += 5000 {
		moments++
		if got := p.diagnose(t, time.UnixMilli(ms)).Verdict.ID; !quiet(got) && !slices.Contains(want, got) {
			alarms = append(alarms, fmt.Sprintf("%s, %d s into phase %s: %s", p.name, (ms-from)/1000,
				p.truth.Phases[phase].Name, got))
		}
	}
	return moments, alarms
}

// writeAccuracy fills testdata/accuracy.md.tmpl with the tables of all measurements.
func writeAccuracy(t *testing.T, verdicts, summary string) {
	t.Helper()
	parts := map[string]string{"Verdicts": verdicts, "Summary": summary}
	for name, file := range map[string]string{"Sparse": sparseTable, "Since": sinceTable, "Names": namesTable,
		"Incidents": incidentsTable} {
		parts[name] = string(must.ReadFile(t, file))
	}
	page, err := template.ParseFiles("testdata/accuracy.md.tmpl")
	must.Succeed(t, err)
	var out bytes.Buffer
	must.Succeed(t, page.Execute(&out, parts))
	must.Succeed(t, os.WriteFile("../../docs/lab/accuracy.md", out.Bytes(), 0o644))
}

// TestMatrix compares the findings of all pathologies on all recordings of the repository with a golden file: a
// pathology that begins to fire on an old recording shows in the diff.
func TestMatrix(t *testing.T) {
	t.Parallel()
	var got bytes.Buffer
	for _, file := range ownFiles(t) {
		p := play(t, file)
		for _, phase := range p.truth.Phases {
			d := p.diagnose(t, time.UnixMilli(phase.ToMS))
			fmt.Fprintf(&got, "%s/%s: %s\n", p.name, phase.Name, d.Verdict.ID)
			for _, f := range d.Findings {
				if f.Status < diagnose.Pending {
					continue
				}
				fmt.Fprintf(&got, "\t%s %s on %s", f.Pathology.ID, f.Status, strings.Join(f.Targets, ", "))
				if f.InhibitedBy != "" {
					fmt.Fprintf(&got, ", explained by %s", f.InhibitedBy)
				}
				got.WriteByte('\n')
			}
		}
	}
	const golden = "testdata/matrix.golden"
	if *update {
		must.Succeed(t, os.MkdirAll("testdata", 0o755))
		must.Succeed(t, os.WriteFile(golden, got.Bytes(), 0o644))
	}
	want, err := os.ReadFile(golden)
	must.Succeed(t, err)
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("the matrix changed; if that is wanted, run with -update (-want +got):\n%s", diff)
	}
}

// TestConditionsAgreeWithPromQL compiles every condition to PromQL and compares its result with the evaluation of the
// snapshot, on recordings: an alert and a diagnosis must never disagree.
func TestConditionsAgreeWithPromQL(t *testing.T) {
	t.Parallel()
	compared, fired := 0, 0
	for _, file := range kinds(t) {
		p := play(t, file)
		for _, phase := range p.truth.Phases {
			d := p.diagnose(t, time.UnixMilli(phase.ToMS))
			for _, f := range d.Findings {
				want := []string{}
				if f.Status >= diagnose.Pending {
					want = f.Targets
				}
				got := []string{}
				for i := range d.Targets {
					expr, err := f.Pathology.When.Compile(p.compilation(d, i))
					if err != nil {
						t.Fatalf("%s: %v", f.Pathology.ID, err)
					}
					if expr == "" {
						continue
					}
					v, err := p.store.Query(t.Context(), expr, d.Spans[i].Window.To)
					if err != nil {
						t.Fatalf("%s: %v\n%s", f.Pathology.ID, err, expr)
					}
					for _, s := range v {
						if string(s.Metric["instance"]) == d.Targets[i].Labels["instance"] {
							got = append(got, d.Targets[i].Name)
						}
					}
				}
				slices.Sort(got)
				got = slices.Compact(got)
				slices.Sort(want)
				compared++
				fired += len(want)
				if !slices.Equal(got, want) {
					t.Errorf("%s/%s: %s: PromQL fires on %v, the diagnosis on %v", p.name, phase.Name, f.Pathology.ID,
						got, want)
				}
			}
		}
	}
	t.Logf("%d conditions compared, %d of them fired", compared, fired)
}

// compilation compiles conditions over exactly the spans of one target that a diagnosis used.
func (p *played) compilation(d diagnose.Diagnosis, target int) catalog.Compilation {
	dia, span := d.Targets[target].Dialect, d.Spans[target]
	past := min(d.At.Sub(p.first), time.Hour)
	return catalog.Compilation{
		Lifetime: span.Source == segments.FromLifetime,
		Capped:   span.Source == segments.FromLifetime || span.Unchanged,
		Limit:    func(*catalog.Threshold) (float64, string, bool) { return 0, "", false },
		Query: func(s *indicator.Signal, baseline bool) (string, error) {
			const never = "(vector(0) > 1)"
			if past < s.MinPast || baseline && span.Source == segments.NoBaseline {
				return never, nil
			}
			rw := dia.Rewriting()
			rw.Window, rw.Short = span.Window.Length(), 10*time.Second+time.Millisecond
			rw.Past = max(past, 10*time.Second)
			if baseline {
				rw.Window, rw.Offset = span.Baseline.Length(), span.Window.To.Sub(span.Baseline.To)
			}
			if s.Fleet {
				rw.Window += time.Second
			}
			out := rw.Compile(dia.Expr(s), s.Scope).String()
			if s.Counted() {
				out = s.Guard(out, rw.Compile(s.Observations(), s.Scope).String())
			}
			return out, nil
		},
	}
}
