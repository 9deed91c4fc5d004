//go:build e2e

package pathologies_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/prometheus/model/labels"
	"go.yaml.in/yaml/v3"

	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/generate"
	"github.com/sixty-dev/sixty/internal/metrics/metricstest"
	"github.com/sixty-dev/sixty/internal/metrics/recording"
	"github.com/sixty-dev/sixty/internal/pathologies"
)

// TestAlertsAgreeInPrometheus replays all recordings at once, at their own pace,
// to a real Prometheus that evaluates rules generated for each of them and
// sends alerts to a real Alertmanager with the generated inhibitions. At the end
// of every phase the active alerts are what the built binary reports with
// sixty diagnose --prometheus, and at the end of the recording the verdict is
// among the alerts that Alertmanager does not inhibit; there are none where all
// is well.
//
// It takes as long as the longest recording: four minutes.
//
//	go test -tags e2e -run TestAlertsAgreeInPrometheus -v -timeout 20m ./internal/pathologies
func TestAlertsAgreeInPrometheus(t *testing.T) {
	for _, tool := range []string{"prometheus", "prometheus-alertmanager", "promtool", "amtool"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not on PATH (Debian: apt-get install prometheus prometheus-alertmanager)", tool)
		}
	}
	dir := t.TempDir()
	bin := filepath.Join(dir, "sixty")
	command(t, dir, "go", "build", "-o", bin, "github.com/sixty-dev/sixty/cmd/sixty")
	var played []*retold
	for _, file := range files(t) {
		played = append(played, newReplay(t, file, dir))
	}
	pages := httptest.NewServer(replayHandler(played))
	defer pages.Close()
	am := startAlertmanager(t, dir)
	prom := startPrometheus(t, dir, pages.URL, am, played)

	seen := &suppressed{url: am}
	last := time.Duration(0)
	for _, r := range played {
		last = max(last, r.length())
	}
	begin := time.Now()
	for _, r := range played {
		r.start(begin)
	}
	for time.Since(begin) < last+10*time.Second {
		seen.look(t)
		time.Sleep(time.Second)
	}
	compared, active, differ := 0, 0, 0
	for _, r := range played {
		for i := range r.truth.Phases {
			alerts, findings, at := r.compare(t, bin, prom, i)
			compared += len(pathologies.All())
			active += len(alerts)
			if diff := cmp.Diff(findings, alerts); diff != "" {
				differ++
				t.Errorf("%s, phase %s at %s: -diagnosis +alerts:\n%s", r.name, r.truth.Phases[i].Name, at.UTC().Format(time.TimeOnly), diff)
			}
		}
		end := r.wall(r.truth.Phases[len(r.truth.Phases)-1].ToMS)
		if d := r.diagnosis(t, bin, prom, end); !seen.shows(r.name, end, &d) {
			t.Errorf("%s: the verdict is %s, and Alertmanager shows %v", r.name, d.Verdict.ID, seen.around(r.name, end))
		}
	}
	t.Logf("%d recordings, %d conditions compared, %d alerts active, %d phases differ", len(played), compared, active, differ)
}

// A retold is a recording that is told again.
type retold struct {
	*played
	scrapes  map[string][]recording.Scrape // by target
	baseline string                        // file
	rules    string                        // file
	began    time.Time
	last     time.Time
}

func newReplay(t *testing.T, file, dir string) *retold {
	t.Helper()
	r := &retold{played: play(t, file), scrapes: map[string][]recording.Scrape{}}
	rec, err := recording.Open(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	_, r.last = rec.Times()
	if err := rec.Scrapes(func(s recording.Scrape) error {
		s.Body = bytes.Clone(s.Body)
		r.scrapes[s.Target] = append(r.scrapes[s.Target], s)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	normal := r.normal(t)
	normal[0].Schema, normal[0].Model = "sixty.baseline/v1", ""
	text, err := normal[0].Marshal()
	if err != nil {
		t.Fatal(err)
	}
	r.baseline = filepath.Join(dir, r.name+".json")
	writeFile(t, r.baseline, text)
	d := r.deployment(t)
	d.Instance, d.Model = []string{"cluster", "instance"}, []string{"cluster", "model_name"}
	d.Matchers = []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, "cluster", r.name)}
	cfg := generate.RulesConfig{
		Deployment: d, Pathologies: slices.Clone(pathologies.All()), Measured: normal,
		Interval: 5 * time.Second, Past: generate.UsualPast, Ago: generate.UsualAgo,
	}
	rules, err := generate.NewRules(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range rules.Groups() {
		for k := range g.Rules {
			g.Rules[k].For = 0 // recordings are shorter than an alert waits
		}
	}
	if text, err = generate.Encode(rules.Groups(), generate.Plain, "", "", nil); err != nil {
		t.Fatal(err)
	}
	r.rules = filepath.Join(dir, r.name+"-rules.yaml")
	writeFile(t, r.rules, text)
	if text, err = generate.Inhibitions(cfg); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, "inhibit.yaml"), text)
	return r
}

func (r *retold) start(at time.Time)      { r.began = at }
func (r *retold) length() time.Duration   { return r.last.Sub(r.first) }
func (r *retold) wall(ms int64) time.Time { return r.began.Add(time.UnixMilli(ms).Sub(r.first)) }

func replayHandler(all []*retold) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		name, target, _ := strings.Cut(strings.TrimPrefix(req.URL.Path, "/"), "/")
		i := slices.IndexFunc(all, func(r *retold) bool { return r.name == name })
		if i < 0 || all[i].began.IsZero() {
			http.Error(w, "not yet", http.StatusServiceUnavailable)
			return
		}
		r := all[i]
		at := r.first.Add(time.Since(r.began))
		var body []byte
		for _, s := range r.scrapes[target] {
			if s.At.After(at) {
				break
			}
			body = s.Body
		}
		if len(body) == 0 {
			http.Error(w, "this scrape failed", http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		_, _ = w.Write(body)
	})
}

func startAlertmanager(t *testing.T, dir string) string {
	t.Helper()
	var inhibit map[string]any
	text, err := os.ReadFile(filepath.Join(dir, "inhibit.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &inhibit); err != nil {
		t.Fatal(err)
	}
	inhibit["route"] = map[string]any{"receiver": "nobody"}
	inhibit["receivers"] = []map[string]any{{"name": "nobody"}}
	text, err = yaml.Marshal(inhibit)
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "alertmanager.yml")
	writeFile(t, config, text)
	command(t, dir, "amtool", "check-config", config)
	return metricstest.Daemon(t, "prometheus-alertmanager", "--config.file="+config, "--storage.path="+filepath.Join(dir, "am"), "--cluster.listen-address=")
}

func startPrometheus(t *testing.T, dir, pages, alertmanager string, all []*retold) string {
	t.Helper()
	host := strings.TrimPrefix(pages, "http://")
	type static struct {
		Targets []string          `yaml:"targets"`
		Labels  map[string]string `yaml:"labels"`
	}
	var targets []static
	var ruleFiles []string
	for _, r := range all {
		ruleFiles = append(ruleFiles, r.rules)
		for _, target := range slices.Sorted(maps.Keys(r.scrapes)) {
			targets = append(targets, static{[]string{host}, map[string]string{"cluster": r.name, "instance": target, "__metrics_path__": "/" + r.name + "/" + target}})
		}
	}
	text, err := yaml.Marshal(map[string]any{
		"global":         map[string]any{"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "5s"},
		"scrape_configs": []map[string]any{{"job_name": "vllm", "static_configs": targets}},
		"rule_files":     ruleFiles,
		"alerting":       map[string]any{"alertmanagers": []map[string]any{{"static_configs": []static{{Targets: []string{strings.TrimPrefix(alertmanager, "http://")}}}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "prometheus.yml")
	writeFile(t, config, text)
	command(t, dir, "promtool", "check", "config", config)
	return metricstest.Daemon(t, "prometheus", "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "tsdb"), "--log.level=warn")
}

// compare returns the active alerts and the findings, by instance, at the last
// evaluation of the signals before the end of a phase.
func (r *retold) compare(t *testing.T, bin, prom string, phase int) (alerts, findings map[string][]string, at time.Time) {
	t.Helper()
	end := r.wall(r.truth.Phases[phase].ToMS)
	at = end
	for _, series := range query(t, prom, fmt.Sprintf("timestamp(instance_model:vllm_up:30s{cluster=%q})", r.name), end) {
		if ms := series.value(t) * 1000; time.UnixMilli(int64(ms)).Before(end.Add(time.Millisecond)) {
			at = time.UnixMilli(int64(ms))
		}
	}
	alerts = map[string][]string{}
	// The alerts are evaluated once within the next five seconds, from these signals.
	for _, series := range query(t, prom, fmt.Sprintf("ALERTS{cluster=%q}", r.name), at.Add(4990*time.Millisecond)) {
		alerts[series.Metric["pathology"]] = append(alerts[series.Metric["pathology"]], series.Metric["instance"])
	}
	findings = map[string][]string{}
	for _, f := range r.diagnosis(t, bin, prom, at).Findings {
		if f.Status == "firing" || f.Status == "pending" {
			findings[f.ID] = f.Targets
		}
	}
	for _, list := range []map[string][]string{alerts, findings} {
		for id := range list {
			slices.Sort(list[id])
			list[id] = slices.Compact(list[id])
		}
	}
	return alerts, findings, at
}

type diagnosisJSON struct {
	Verdict  struct{ ID string }
	Findings []struct {
		ID, Status string
		Targets    []string
	}
}

func (r *retold) diagnosis(t *testing.T, bin, prom string, at time.Time) (d diagnosisJSON) {
	t.Helper()
	cmd := exec.Command(bin, "diagnose", "--prometheus", prom, "--match", "cluster="+r.name, "--at", strconv.FormatFloat(float64(at.UnixMilli())/1000, 'f', 3, 64),
		"--window", alertWindow.String(), "--baseline", r.baseline, "--output", "json")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	_ = cmd.Run() // 1: something was found
	if err := json.Unmarshal(stdout.Bytes(), &d); err != nil {
		t.Errorf("%s: %v: %s", r.name, err, stderr.String())
	}
	return d
}

type promSeries struct {
	Metric map[string]string
	Value  [2]any
}

func (s promSeries) value(t *testing.T) float64 {
	t.Helper()
	text, _ := s.Value[1].(string)
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func query(t *testing.T, prom, expr string, at time.Time) []promSeries {
	t.Helper()
	var answer struct {
		Error string
		Data  struct{ Result []promSeries }
	}
	getJSON(t, prom+"/api/v1/query?time="+strconv.FormatFloat(float64(at.UnixMilli())/1000, 'f', 3, 64)+"&query="+url.QueryEscape(expr), &answer)
	if answer.Error != "" {
		t.Fatalf("%s: %s", expr, answer.Error)
	}
	return answer.Data.Result
}

// suppressed remembers what Alertmanager showed, second by second.
type suppressed struct {
	url   string
	looks []look
}

type look struct {
	at     time.Time
	active map[string][]string // by cluster: what is neither silenced nor inhibited
}

func (s *suppressed) look(t *testing.T) {
	t.Helper()
	var alerts []struct {
		Labels map[string]string
		Status struct{ State string }
	}
	getJSON(t, s.url+"/api/v2/alerts?active=true&inhibited=false", &alerts)
	l := look{time.Now(), map[string][]string{}}
	for _, a := range alerts {
		l.active[a.Labels["cluster"]] = append(l.active[a.Labels["cluster"]], a.Labels["pathology"])
	}
	s.looks = append(s.looks, l)
}

// shows reports whether a verdict could be read from the active alerts soon
// after a moment: evaluation and delivery take some seconds. What the diagnosis
// does not believe yet is an alert already, for these wait for nothing.
func (s *suppressed) shows(cluster string, at time.Time, d *diagnosisJSON) bool {
	verdict := d.Verdict.ID
	quiet := verdict == diagnose.Healthy || verdict == diagnose.Idle || verdict == diagnose.InsufficientData
	pending := func(id string) bool {
		for _, f := range d.Findings {
			if f.ID == id && f.Status == "pending" {
				return true
			}
		}
		return false
	}
	return slices.ContainsFunc(s.around(cluster, at), func(active []string) bool {
		return quiet && (len(active) == 0 || slices.ContainsFunc(active, pending)) || slices.Contains(active, verdict)
	})
}

// around returns what was active in the seconds after a moment.
func (s *suppressed) around(cluster string, at time.Time) (list [][]string) {
	for _, l := range s.looks {
		if !l.at.Before(at) && l.at.Before(at.Add(8*time.Second)) {
			list = append(list, l.active[cluster])
		}
	}
	return list
}

func getJSON(t *testing.T, address string, into any) {
	t.Helper()
	res, err := http.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(body, into); err != nil {
		t.Fatalf("%s: %v: %.200s", address, err, body)
	}
}

func command(t *testing.T, dir, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
}

func writeFile(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}
