package cli

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	yaml "go.yaml.in/yaml/v3"

	"github.com/sixty-dev/sixty/internal/base/must"
)

const brokenRule = `groups:
- name: g
  rules:
  - alert: Full   # nearly
    expr: max by (model_name) (vllm:gpu_cache_usage_perc) > 0.9
    for: 5m
`

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	must.Succeed(t, os.WriteFile(path, []byte(text), 0o640))
	return path
}

// Audit finds no fault in the files that generate writes for a release.
func TestAuditFindsNothingInWhatIsGenerated(t *testing.T) {
	for _, d := range []string{
		"vllm-v1", "vllm-v1-ray", "vllm-v1-kserve", "vllm-v1-normalized", "sglang",
		"vllm-v0", "vllm-0.10", "vllm-0.20", "vllm-0.8,vllm-v1", "vllm-v1,sglang",
	} {
		t.Run(d, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if _, notes, err := sixty(t, "generate", "all", "--dialect", d, "--out", dir); err != nil {
				t.Fatal(err, notes)
			}
			args := []string{"audit", "--fail-on", "info", "--rules", filepath.Join(dir, "rules"), "--dashboards", filepath.Join(dir, "dashboards")}
			if !strings.Contains(d, ",") {
				args = append(args, "--dialect", d)
			}
			if out, notes, err := sixty(t, args...); err != nil {
				t.Errorf("%v\n%s%s", err, out, notes)
			}
		})
	}
}

// TestTheHookOfPreCommit runs .pre-commit-hooks.yaml as pre-commit does: with the names
// of the files that change.
func TestTheHookOfPreCommit(t *testing.T) {
	data := must.ReadFile(t, "../../.pre-commit-hooks.yaml")
	var hooks []struct{ Entry string }
	if err := yaml.Unmarshal(data, &hooks); err != nil || len(hooks) != 1 {
		t.Fatal(err, hooks)
	}
	entry := strings.Fields(hooks[0].Entry)[1:]
	compose := write(t, "compose.yaml", "services: {a: {image: b}}\n")
	chart := write(t, "values.yaml", "{{- if .Values.x }}\na: b\n{{- end }}\n")
	for _, tc := range []struct {
		files []string
		want  error
	}{
		{[]string{compose, chart}, nil},
		{[]string{compose, write(t, "alerts.yaml", brokenRule)}, errFound},
		{[]string{compose, write(t, "typo.yaml", "groups: 5\n")}, errCannotTell},
	} {
		if out, _, err := sixty(t, append(append(slices.Clone(entry), "--vllm-version", "0.23"), tc.files...)...); !errors.Is(err, tc.want) {
			t.Errorf("%v: %v\n%s", tc.files, err, out)
		}
	}
}

// TestTheActionOfGitHub runs the last step of action.yml with a program that tells how it
// was called.
func TestTheActionOfGitHub(t *testing.T) {
	shell, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash")
	}
	data := must.ReadFile(t, "../../action.yml")
	var action struct {
		Inputs map[string]struct{ Default string }
		Runs   struct {
			Steps []struct {
				Run string
				Env map[string]string
			}
		}
	}
	must.Succeed(t, yaml.Unmarshal(data, &action))
	dir := t.TempDir()
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "sixty"), []byte("#!/bin/sh\nfor a; do echo \"$a\"; done\nexit 1\n"), 0o700))
	// A release's binary comes from the release, and is none where the checksum is another one's.
	bin := t.TempDir()
	curl := "#!/bin/sh\nfor a; do url=$a; done\ncase $url in\n" +
		"*/v0.1.0/sixty_0.1.0_linux_amd64.tar.gz) cd " + bin + " && echo released > sixty && tar -czf \"$OLDPWD/sixty_0.1.0_linux_amd64.tar.gz\" sixty ;;\n" +
		"*/checksums.txt) sha256sum sixty_0.1.0_linux_amd64.tar.gz | sed \"s/^/$BREAK/\" > checksums.txt ;;\n*) exit 22 ;;\nesac\n"
	must.Succeed(t, os.WriteFile(filepath.Join(bin, "curl"), []byte(curl), 0o700))
	for _, tt := range []struct{ ref, spoil, holds string }{{"v0.1.0", "", "released\n"}, {"v0.1.0", "f", ""}, {"v9.9.9", "", ""}, {"main", "", ""}} {
		temp := t.TempDir()
		cmd := exec.CommandContext(t.Context(), shell, "-e", "-o", "pipefail", "-c", action.Runs.Steps[0].Run)
		cmd.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "RUNNER_TEMP=" + temp, "GITHUB_OUTPUT=" + temp + "/outputs", "REF=" + tt.ref, "PLATFORM=Linux_X64", "BREAK=" + tt.spoil}
		said, err := cmd.CombinedOutput()
		got, _ := os.ReadFile(filepath.Join(temp, "sixty"))
		outputs, _ := os.ReadFile(filepath.Join(temp, "outputs"))
		if string(got) != tt.holds || (tt.ref == "main") != (string(outputs) == "build=true\n") || (err != nil) != (tt.holds == "" && tt.ref != "main") {
			t.Errorf("%v: %v, %q, %q\n%s", tt, err, got, outputs, said)
		}
	}
	step := action.Runs.Steps[len(action.Runs.Steps)-1]
	for name, from := range step.Env {
		input := strings.TrimSuffix(strings.TrimPrefix(from, "${{ inputs."), " }}")
		if _, ok := action.Inputs[input]; !ok {
			t.Errorf("%s is of no input: %s", name, from)
		}
	}
	cmd := exec.CommandContext(t.Context(), shell, "-e", "-o", "pipefail", "-c", step.Run)
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "RUNNER_TEMP=" + dir, "FILES=a b.yaml\nc/\n", "DASHBOARDS=d.json", "VLLM=0.23",
		"FAIL_ON=" + action.Inputs["fail-on"].Default, "IGNORE=",
	}
	out, err := cmd.Output()
	want := "audit\n--fail-on\nticket\n--rules\na b.yaml\n--rules\nc/\n--dashboards\nd.json\n--vllm-version\n0.23\n"
	var exit *exec.ExitError
	if !errors.As(err, &exit) || string(out) != want {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestAuditOfPrometheus audits a recording behind Prometheus' API, with the
// rules that the server evaluates.
func TestAuditOfPrometheus(t *testing.T) {
	data := prometheus(t, thrashing)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/rules") {
			data.Config.Handler.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"status":"success","data":{"groups":[{"name":"g","file":"/etc/rules/vllm.yaml","rules":[
			{"type":"alerting","name":"Full","query":"vllm:gpu_cache_usage_perc > 0.9","duration":300,"annotations":{"runbook_url":"x"},"health":"ok"},
			{"type":"recording","name":"r","query":"sum(vllm:num_requests_waiting)","health":"ok"}]}]}}`))
	}))
	defer server.Close()
	out, _, err := sixty(t, "audit", "--prometheus", server.URL, "--at", "2026-11-21T04:51:39Z", "--match", "namespace=prod", "--output", "json")
	if !errors.Is(err, errFound) {
		t.Fatal(err)
	}
	var got struct {
		Source struct {
			Dialects, Models []string
			Instances        int
		}
		Areas []struct {
			ID    string
			Items []struct{ Name, Status string }
		}
		Findings []struct {
			Check, File, Fix string
			Line             int
			Fixable          bool
		}
	}
	must.Succeed(t, json.Unmarshal([]byte(out), &got))
	if len(got.Source.Dialects) != 1 || len(got.Source.Models) != 1 || got.Source.Instances != 1 || len(got.Areas) != 8 {
		t.Errorf("%+v", got)
	}
	if len(got.Findings) != 1 || got.Findings[0].Check != "removed-metric" || got.Findings[0].Fixable || got.Findings[0].Line != 0 ||
		got.Findings[0].File != "/etc/rules/vllm.yaml (in Prometheus)" || got.Findings[0].Fix != "write vllm:kv_cache_usage_perc" {
		t.Errorf("findings: %+v", got.Findings)
	}
	for _, a := range got.Areas {
		for _, it := range a.Items {
			if a.ID == "operations" && it.Name == "alert on memory pressure" && it.Status != "present" {
				t.Errorf("%+v", it)
			}
			if it.Name == "GPUs" && it.Status != "missing" {
				t.Errorf("%+v", it)
			}
		}
	}
}

func TestAuditSaysWhenAServerShowsNoRules(t *testing.T) {
	data := prometheus(t, thrashing)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/rules") {
			http.NotFound(w, r)
			return
		}
		data.Config.Handler.ServeHTTP(w, r)
	}))
	defer server.Close()
	out, notes, err := sixty(t, "audit", "--prometheus", server.URL, "--at", "2026-11-21T04:51:39Z")
	if !errors.Is(err, errFound) || !strings.Contains(notes, "rules cannot be read") || !strings.Contains(out, "Operations          unknown") {
		t.Errorf("%v\n%s\n%s", err, notes, out)
	}
}
