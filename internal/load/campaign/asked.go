package campaign

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/common/config"
	"github.com/spf13/pflag"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/diagnose/source"
	"github.com/sixty-dev/sixty/internal/load"
)

// Asked is a campaign as the user requested it: the Config, and settings that must be parsed first.
type Asked struct {
	Config
	Given func(flag string) bool // reports whether a flag was on the command line

	URL, API, Model, ExtraBody string
	WorkloadFrom, WarmupTime   string
	PromptsFile                string
	Asserts                    []string
}

// AddFlags adds the flags of sixty bench, without the workload's.
func (a *Asked) AddFlags(s *pflag.FlagSet) {
	s.StringVar(&a.API, "api", "", "API to use (default: from the URL, else chat)")
	s.StringVar(&a.Model, "model", "", "model `name` (default: the first that the server lists)")
	s.StringVar(&a.ExtraBody, "extra-body", "", "further fields of the request body as a `JSON` object; null "+
		"removes one: '{\"ignore_eos\": null, \"min_tokens\": null}' lets the model end its answers")
	s.StringVar(&a.Scenario, "scenario", "",
		"`name`: low-load, saturation, long-prompts, long-outputs, burst or all")
	s.Float64Var(&a.Scale, "scale", 1, "multiply a scenario's concurrency, requests and lengths")
	s.StringVar(&a.PromptsFile, "prompts", "", "send the prompts in this `file` in turn, in place of made ones: JSON "+
		"Lines with texts, or objects with prompt or messages")
	s.StringVar(&a.WorkloadFrom, "workload-from", "",
		"take lengths, prefix sharing and arrivals from a live server's `URL`, a recording, or prometheus=URL")
	s.DurationVar(&a.Timeout, "request-timeout", 0, "timeout of one request (default 10m)")
	s.StringVar(&a.WarmupTime, "warmup", "auto", "warm-up time to exclude, or auto")
	s.StringArrayVar(&a.Asserts, "assert", nil, "condition such as 'ttft_p95<500ms'; exit with 1 if it fails")
	s.StringSliceVar(&a.Metrics, "metrics", []string{"auto"}, "`URLs` of metrics to scrape during the test: the "+
		"servers', GPU exporters'; auto is the target's own, or none")
	s.StringVar(&a.Files.Result, "save", "", "write the result to this `file` too, for bench compare and generate")
	s.StringVar(&a.Files.CSV, "csv", "", "write a line per request to this `file`")
	s.StringVar(&a.Files.Baseline, "save-baseline", "",
		"write thresholds for generate rules and diagnose to this `file`")
	s.StringVar(&a.Search, "search", "", "find the highest rate, or concurrency, that meets --use-case or --slo")
	s.Float64Var(&a.SearchFrom, "search-from", 1, "lowest level of a search")
	s.Float64Var(&a.SearchTo, "search-to", 0, "highest level of a search (default: found by doubling)")
}

// Check refuses flags that contradict each other or have no effect, and files that cannot be written, before any load
// is sent.
func (a *Asked) Check() error {
	ways := 0
	for _, set := range []bool{a.Scenario != "", a.Concurrency != 0, a.Rate != "", a.Trace != "", a.Search != ""} {
		if set {
			ways++
		}
	}
	switch {
	case source.OnDisk(a.URL):
		return hint.With(fmt.Errorf("%s is a file: a load test needs a server", a.URL),
			"sixty simulate "+a.URL+" says what its servers would do under another load")
	case ways == 0 && a.WorkloadFrom == "":
		return hint.With(errors.New("no load was asked for"),
			"pass --scenario, --concurrency, --rate, --trace, --workload-from or --search")
	case ways > 1:
		return hint.With(errors.New("--scenario, --concurrency, --rate, --trace and --search exclude each other"),
			"pass one of them")
	case a.Search != "" && !a.Given("slo") && !a.Given("use-case"):
		return hint.With(errors.New("a search needs an objective"), "pass --use-case chat, or --slo slo.yaml")
	case a.Files.CSV != "" && (a.Scenario == "all" || a.Search != ""):
		return hint.With(errors.New("--csv works for a single test only"),
			"leave --search and --scenario all out, or write the results with --save")
	}
	if err := a.refuseUseless(); err != nil {
		return err
	}
	return a.checkWritable()
}

// checkWritable checks that the results can be written.
func (a *Asked) checkWritable() error {
	for _, x := range []struct{ flag, path string }{
		{"out", a.Files.Out},
		{"save", a.Files.Result},
		{"csv", a.Files.CSV},
		{"save-baseline", a.Files.Baseline},
	} {
		if x.path == "" {
			continue
		}
		tmp, err := os.CreateTemp(filepath.Dir(x.path), "."+filepath.Base(x.path)+".*")
		if err != nil {
			return hint.With(fmt.Errorf("--%s %s: %w", x.flag, x.path, errors.Unwrap(err)),
				"name a file in an existing, writable directory")
		}
		tmp.Close()
		os.Remove(tmp.Name())
	}
	return nil
}

// refuseUseless refuses flags that have no effect beside the others. A test that ignores a request is worse than
// none.
func (a *Asked) refuseUseless() error {
	made := a.Scenario == "" && a.Trace == ""
	for _, x := range []struct {
		flags  string
		useful bool
		goesBy string
	}{
		{
			"output-tokens prompts", made, "a synthetic workload; scenarios and traces have their own",
		},
		{
			"prompt-tokens prefix-share system-tokens prefix-groups", made && a.PromptsFile == "",
			"a synthetic workload; scenarios, traces and --prompts have their own prompts",
		},
		{"scale", a.Scenario != "", "--scenario"},
		{"cv", a.Rate != "" || a.Search == "rate", "--rate or --search rate"},
		{"speed", a.Trace != "", "--trace"},
		{"workload-from", made, "--rate, --concurrency or --search; scenarios and traces have a workload"},
		{"search-from search-to", a.Search != "", "--search"},
	} {
		if x.useful {
			continue
		}
		for flag := range strings.FieldsSeq(x.flags) {
			if a.Given(flag) {
				return hint.With(fmt.Errorf("--%s has no effect here", flag), "it goes with "+x.goesBy)
			}
		}
	}
	return nil
}

// Read parses the settings into the Config.
func (a *Asked) Read() (err error) {
	if a.PromptsFile != "" {
		if a.Prompts, err = readPrompts(a.PromptsFile); err != nil {
			return fmt.Errorf("--prompts %s: %w", a.PromptsFile, err)
		}
	}
	for _, text := range a.Asserts {
		x, err := load.ParseAssertion(text)
		if err != nil {
			return err
		}
		a.Assertions = append(a.Assertions, x)
	}
	a.Warmup = load.AutoWarmup
	if a.WarmupTime != "auto" {
		if a.Warmup, err = time.ParseDuration(a.WarmupTime); err != nil || a.Warmup < 0 {
			return hint.With(fmt.Errorf("--warmup %q", a.WarmupTime), "write it as 30s, 0s or auto")
		}
	}
	return a.setTarget()
}

// readPrompts reads the user's own prompts.
func readPrompts(path string) ([]load.Prompt, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, errors.Unwrap(err)
	}
	defer file.Close()
	return load.ReadPrompts(file)
}

// setTarget sets the server under test and the options of requests.
func (a *Asked) setTarget() error {
	t := load.Target{URL: a.URL, API: load.API(a.API), Model: a.Model, IgnoreEOS: true}
	if !strings.Contains(t.URL, "://") {
		t.URL = "http://" + t.URL
	}
	if a.ExtraBody != "" {
		if err := json.Unmarshal([]byte(a.ExtraBody), &t.Extra); err != nil {
			return hint.With(fmt.Errorf("--extra-body: %w", err), `write it as '{"top_p": 0.9}'`)
		}
	}
	var err error
	if t.Headers, err = collectHeaders(&a.HTTP); err != nil {
		return err
	}
	if a.HTTP.TLSConfig != (config.TLSConfig{}) {
		if t.TLS, err = config.NewTLSConfig(&a.HTTP.TLSConfig); err != nil {
			return fmt.Errorf("TLS settings: %w", err)
		}
	}
	if a.HTTP.ProxyURL.URL != nil || a.HTTP.ProxyFromEnvironment {
		t.Proxy = a.HTTP.Proxy()
	}
	a.Target = t
	return nil
}

// collectHeaders returns the headers that an HTTP configuration adds to a request, credentials included.
func collectHeaders(c *config.HTTPClientConfig) (http.Header, error) {
	if c.OAuth2 != nil {
		return nil, hint.With(errors.New("--http-config: bench does not support oauth2"),
			"give it a token with --bearer-token-file")
	}
	sent := http.Header{}
	var way http.RoundTripper = lastRoundTripper{sent}
	if c.HTTPHeaders != nil {
		way = config.NewHeadersRoundTripper(c.HTTPHeaders, way)
	}
	switch {
	case c.Authorization != nil:
		way = config.NewAuthorizationCredentialsRoundTripper(c.Authorization.Type,
			secretReader(c.Authorization.Credentials, c.Authorization.CredentialsFile), way)
	case c.BasicAuth != nil:
		user := secretReader(config.Secret(c.BasicAuth.Username), c.BasicAuth.UsernameFile)
		way = config.NewBasicAuthRoundTripper(user, secretReader(c.BasicAuth.Password, c.BasicAuth.PasswordFile), way)
	}
	req, err := http.NewRequest(http.MethodPost, "http://localhost", http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("HTTP settings: %w", err)
	}
	resp, err := way.RoundTrip(req)
	if err != nil {
		return nil, fmt.Errorf("HTTP settings: %w", err)
	}
	return sent, resp.Body.Close()
}

func secretReader(text config.Secret, file string) config.SecretReader {
	if file != "" {
		return config.NewFileSecret(file)
	}
	return config.NewInlineSecret(string(text))
}

// lastRoundTripper records the headers of earlier round trippers, and sends nothing.
type lastRoundTripper struct{ headers http.Header }

// RoundTrip implements http.RoundTripper.
func (l lastRoundTripper) RoundTrip(r *http.Request) (*http.Response, error) {
	maps.Copy(l.headers, r.Header)
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}
