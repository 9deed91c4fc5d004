package pathologies_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/generate/history"
)

// A timeline is a server that serves for some minutes, and then something happens.
type timeline struct {
	name  string
	every []time.Duration
	// before and after are how long it serves, and how long ago that ended.
	before, after time.Duration
	// lines are of a case file; {n} is the number of scrapes before the event, {m}
	// that of those from it on, {rest} that of all after the first, {last} the last
	// one, {k} how many there are in a minute, and {s} the seconds between two.
	lines string
	want  []string
	never []string
}

func (sc *timeline) text(every time.Duration) string {
	n, m, k := int(sc.before/every), int(sc.after/every), int(time.Minute/every)
	r := strings.NewReplacer("{n}", fmt.Sprint(n), "{m}", fmt.Sprint(m), "{n-1}", fmt.Sprint(n-1), "{m-1}", fmt.Sprint(m-1), "{rest}", fmt.Sprint(n+m-1), "{rest-1}", fmt.Sprint(n+m-2), "{m-3}", fmt.Sprint(m-3), "{k}", fmt.Sprint(k), "{m-k-1}", fmt.Sprint(m-k-1),
		"{last}", fmt.Sprint(n+m-1), "{last-1}", fmt.Sprint(n+m-2), "{s}", fmt.Sprintf("%g", every.Seconds()))
	return sums(r.Replace(fmt.Sprintf("every %s for %s\nlike healthy\n%s", every, time.Duration(n+m)*every, sc.lines)))
}

// stops is a server all of whose counters stop at the event.
const stops = `
rate vllm:prompt_tokens_total{model_name="m",engine="0"} 2000x{n},0
rate vllm:generation_tokens_total{model_name="m",engine="0"} 200x{n},0
rate vllm:prompt_tokens_by_source_total{model_name="m",engine="0",source="local_compute"} 1000x{n},0
rate vllm:prompt_tokens_by_source_total{model_name="m",engine="0",source="local_cache_hit"} 1000x{n},0
rate vllm:prefix_cache_queries_total{model_name="m",engine="0"} 2000x{n},0
rate vllm:prefix_cache_hits_total{model_name="m",engine="0"} 1000x{n},0
rate vllm:request_success_total{model_name="m",engine="0",finished_reason="stop"} 2x{n},0
hist vllm:time_to_first_token_seconds{model_name="m",engine="0"} mean=0.06 rate=2x{n},0
hist vllm:inter_token_latency_seconds{model_name="m",engine="0"} mean=0.02 rate=198x{n},0
hist vllm:request_time_per_output_token_seconds{model_name="m",engine="0"} mean=0.02 rate=2x{n},0
hist vllm:e2e_request_latency_seconds{model_name="m",engine="0"} mean=2.1 rate=2x{n},0
hist vllm:request_queue_time_seconds{model_name="m",engine="0"} mean=0.001 rate=2x{n},0
hist vllm:request_prefill_time_seconds{model_name="m",engine="0"} mean=0.04 rate=2x{n},0
hist vllm:request_decode_time_seconds{model_name="m",engine="0"} mean=2 rate=2x{n},0
hist vllm:request_prompt_tokens{model_name="m",engine="0"} mean=1000 rate=2x{n},0
hist vllm:request_generation_tokens{model_name="m",engine="0"} mean=100 rate=2x{n},0
hist vllm:request_params_max_tokens{model_name="m",engine="0"} mean=400 rate=2x{n},0
hist vllm:request_prefill_kv_computed_tokens{model_name="m",engine="0"} mean=500 rate=2x{n},0
hist vllm:iteration_tokens_total{model_name="m",engine="0"} mean=24 rate=50x{n},0
`

const (
	// silentDoor is the API server when the clients have left.
	silentDoor = `
rate http_requests_total{handler="/v1/chat/completions",method="POST",status="2xx"} 2x{n},0
`
	// polled is a gateway that asks which models there are.
	polled = `
rate http_requests_total{handler="/v1/models",method="GET",status="2xx"} 0.33
rate http_requests_total{handler="/health",method="GET",status="2xx"} 0.2
`
	// emptied are the gauges of an engine that was idle when it stopped.
	emptied = `
vllm:num_requests_running{model_name="m",engine="0"} 4x{n-1} 0x{m-1}
vllm:kv_cache_usage_perc{model_name="m",engine="0"} 0.2x{n-1} 0x{m-1}
`
	// rank is a second rank that serves half of the requests until the event.
	rank = `
vllm:num_requests_running{model_name="m",engine="1"} 4x{n-1} 0x{m-1}
vllm:num_requests_waiting{model_name="m",engine="1"} 0x{rest}
vllm:kv_cache_usage_perc{model_name="m",engine="1"} 0.2x{n-1} 0x{m-1}
rate vllm:prompt_tokens_total{model_name="m",engine="1"} 2000x{n},0
rate vllm:generation_tokens_total{model_name="m",engine="1"} 200x{n},0
rate vllm:request_success_total{model_name="m",engine="1",finished_reason="stop"} 2x{n},0
hist vllm:time_to_first_token_seconds{model_name="m",engine="1"} mean=0.06 rate=2x{n},0
hist vllm:inter_token_latency_seconds{model_name="m",engine="1"} mean=0.02 rate=198x{n},0
hist vllm:iteration_tokens_total{model_name="m",engine="1"} mean=24 rate=50x{n},0
`
)

// thrashing follows the event.
const thrashing = `
vllm:num_requests_running{model_name="m",engine="0"} 4x{n-1} 24x{m-1}
vllm:num_requests_waiting{model_name="m",engine="0"} 0x{n-1} 6x{m-1}
vllm:kv_cache_usage_perc{model_name="m",engine="0"} 0.2x{n-1} 0.97x{m-1}
rate vllm:num_preemptions_total{model_name="m",engine="0"} 0x{n},1
rate vllm:generation_tokens_total{model_name="m",engine="0"} 200x{n},600
hist vllm:inter_token_latency_seconds{model_name="m",engine="0"} mean=0.02x{n},0.035 rate=198x{n},590
hist vllm:inter_token_latency_seconds{model_name="m",engine="0"} mean=3 rate=0x{n},1
hist vllm:time_to_first_token_seconds{model_name="m",engine="0"} mean=0.06x{n},5 rate=2
hist vllm:request_queue_time_seconds{model_name="m",engine="0"} mean=0.001x{n},4.5 rate=2
hist vllm:e2e_request_latency_seconds{model_name="m",engine="0"} mean=2.1x{n},20 rate=2
`

var (
	coarse = []time.Duration{time.Second, 15 * time.Second, 30 * time.Second}
	hung   = []string{"engine-hung"}
)

var timelines = []timeline{
	{
		name: "stopped while idle, a gateway polls, clients pile up", every: coarse, before: 4 * time.Minute, after: 90 * time.Second, want: hung,
		lines: stops + silentDoor + polled + emptied + "process_open_fds 37x{n-1} 37+1.4*{s}x{m-1}",
	},
	{
		name: "stopped under load, a gateway polls", every: coarse, before: 4 * time.Minute, after: 60 * time.Second, want: hung,
		lines: stops + silentDoor + polled + "process_open_fds 37x{n-1} 37+1.4*{s}x{m-1}",
	},
	{
		name: "stopped while idle behind two API servers, clients give up", every: coarse, before: 4 * time.Minute, after: 90 * time.Second, want: hung,
		lines: stops + polled + emptied + "without process_.* vllm:generation_tokens_created\n" + `rate http_requests_total{handler="/v1/chat/completions",method="POST",status="2xx"} 2`,
	},
	{
		name: "one of two ranks stopped while idle, the router goes on", every: coarse, before: 4 * time.Minute, after: 120 * time.Second, want: hung,
		lines: rank + "process_open_fds 41x{n-1} 41+1*{s}x{m-1}\n" + `rate http_requests_total{handler="/v1/chat/completions",method="POST",status="2xx"} 4x{n},2`,
	},
	{
		name: "one of two ranks stopped while idle, clients wait, and several API servers have no process_* series", every: coarse, before: 4 * time.Minute, after: 120 * time.Second, want: hung,
		lines: "without process_.* vllm:generation_tokens_created\n" + rank + `rate http_requests_total{handler="/v1/chat/completions",method="POST",status="2xx"} 4x{n},2`,
	},
	{
		name: "one of two ranks stopped while idle, and some clients leave", every: coarse, before: 4 * time.Minute, after: 120 * time.Second, want: hung,
		lines: "without process_.* vllm:generation_tokens_created\n" + rank + `rate http_requests_total{handler="/v1/chat/completions",method="POST",status="2xx"} 4x{n},2.3`,
	},
	{
		name: "thin traffic, one request now and then, of which one of two ranks gets all", every: coarse, before: 4 * time.Minute, after: 120 * time.Second, never: hung,
		lines: "without process_.* vllm:generation_tokens_created\n" + rank + `
vllm:num_requests_running{model_name="m",engine="0"} 4x{n-1} 0x{m-1}
rate vllm:generation_tokens_total{model_name="m",engine="0"} 200x{n},30
rate vllm:request_success_total{model_name="m",engine="0",finished_reason="stop"} 2x{n},0.3
hist vllm:time_to_first_token_seconds{model_name="m",engine="0"} mean=0.06 rate=2x{n},0.3
hist vllm:inter_token_latency_seconds{model_name="m",engine="0"} mean=0.02x{n},0.005 rate=198x{n},29
rate http_requests_total{handler="/v1/chat/completions",method="POST",status="2xx"} 4x{n},0.3`,
	},
	{
		name: "thin traffic that all goes to one of two ranks", every: coarse, before: 4 * time.Minute, after: 120 * time.Second, never: hung,
		lines: rank + "process_open_fds 41x{n-1} 43x1 41x{m-3}\n" + `rate http_requests_total{handler="/v1/chat/completions",method="POST",status="2xx"} 4x{n},2`,
	},
	{
		name: "idle, with many connections that are kept open", every: coarse, before: 4 * time.Minute, after: 90 * time.Second, never: hung,
		lines: stops + silentDoor + polled + emptied + "process_open_fds 37x{n-1} 80x{m-1}",
	},
	{
		name: "idle, and a monitor connects", every: coarse, before: 4 * time.Minute, after: 90 * time.Second, never: hung,
		lines: stops + silentDoor + polled + emptied + "process_open_fds 37x{rest-1} 40",
	},
	{
		name: "a burst whose first step runs at the scrape", every: coarse, before: 4 * time.Minute, after: 90 * time.Second, never: hung,
		lines: stops + silentDoor + polled + emptied + "process_open_fds 37x{rest-1} 57",
	},
	{
		name: "one long prompt is read in chunks", every: coarse, before: 4 * time.Minute, after: 60 * time.Second, never: hung,
		lines: stops + silentDoor + `
vllm:num_requests_running{model_name="m",engine="0"} 4x{n-1} 1x{m-1}
vllm:kv_cache_usage_perc{model_name="m",engine="0"} 0.2x{n-1} 0.01+0.005*{s}x{m-1}
process_open_fds 37x{rest}`,
	},
	{
		name: "clients hang up at once, and nobody comes", every: coarse, before: 4 * time.Minute, after: 60 * time.Second, never: hung,
		lines: stops + emptied + "process_open_fds 41x{n-1} 37x{m-1}\n" + `rate http_requests_total{handler="/v1/chat/completions",method="POST",status="2xx"} 2x{n},4x1,0`,
	},
	{
		name: "thrashing after a restart a minute ago", every: coarse, before: 4 * time.Minute, after: 100 * time.Second, want: []string{"kv-cache-thrashing"},
		lines: "restart {n} {k}\nprocess_start_time_seconds 1794989900x{n-1} _x{k} 1795000280x{m-k-1}\n" +
			"vllm:generation_tokens_created{model_name=\"m\",engine=\"0\"} 1794990000x{n-1} _x{k} 1795000285x{m-k-1}\n" + thrashing,
	},
	{
		name: "slow first tokens after a restart a minute ago", every: coarse, before: 4 * time.Minute, after: 100 * time.Second, want: []string{"engine-restart"},
		lines: "restart {n} {k}\nprocess_start_time_seconds 1794989900x{n-1} _x{k} 1795000280x{m-k-1}\n" +
			"vllm:generation_tokens_created{model_name=\"m\",engine=\"0\"} 1794990000x{n-1} _x{k} 1795000285x{m-k-1}\n" +
			`hist vllm:time_to_first_token_seconds{model_name="m",engine="0"} mean=0.06x{n},0.6 rate=2`,
	},
	{
		name: "slow first tokens long after a restart", every: coarse, before: 4 * time.Minute, after: 4 * time.Minute, never: []string{"engine-restart"},
		lines: "restart {n} {k}\nprocess_start_time_seconds 1794989900x{n-1} _x{k} 1795000280x{m-k-1}\n" +
			"vllm:generation_tokens_created{model_name=\"m\",engine=\"0\"} 1794990000x{n-1} _x{k} 1795000285x{m-k-1}\n" +
			`hist vllm:time_to_first_token_seconds{model_name="m",engine="0"} mean=0.06x{n},0.6 rate=2`,
	},
	{
		name: "one scrape is lost", every: coarse, before: 4 * time.Minute, after: 60 * time.Second, never: []string{"target-down"},
		lines: "down {n} 1",
	},
	{
		name: "the last scrape is lost", every: coarse, before: 4 * time.Minute, after: 60 * time.Second, never: []string{"target-down"},
		lines: "down {last} 1",
	},
	{
		name: "the last two scrapes failed", every: []time.Duration{15 * time.Second, 30 * time.Second, 60 * time.Second}, before: 4 * time.Minute, after: 60 * time.Second, want: []string{"target-down"},
		lines: "down {last-1} 2",
	},
}

// TestProgress holds hangs and outages against what looks like them, from a scrape a
// second and from those of production.
func TestProgress(t *testing.T) {
	for _, sc := range timelines {
		for _, every := range sc.every {
			t.Run(fmt.Sprint(sc.name, "/", every), func(t *testing.T) {
				t.Parallel()
				text := sc.text(every)
				c, err := history.Parse(os.DirFS("."), text)
				if err != nil {
					t.Fatalf("%v\n%s", err, text)
				}
				d := diagnoseSeries(t, c)
				if len(sc.want) > 0 && !slices.Contains(sc.want, d.Verdict.ID) {
					t.Errorf("%s (%s), want %s", d.Verdict.ID, d.Verdict.Summary, sc.want)
				}
				for _, f := range d.Findings {
					if slices.Contains(sc.never, f.Pathology.ID) && f.Status == diagnose.Firing {
						t.Errorf("%s: %s", f.Pathology.ID, explain(d, f))
					}
					if t.Failed() && (slices.Contains(sc.want, f.Pathology.ID) || f.Status >= diagnose.Pending) {
						t.Logf("%s %s: %s", f.Pathology.ID, f.Status, explain(d, f))
					}
				}
			})
		}
	}
}

// sums replaces products such as 1.4*15 by their value.
func sums(text string) string {
	words := strings.Fields(text)
	for _, w := range words {
		i := strings.LastIndexByte(w, '+')
		j := strings.IndexByte(w, 'x')
		if i < 0 || j < i || !strings.Contains(w[i:j], "*") {
			continue
		}
		var a, b float64
		if _, err := fmt.Sscanf(strings.Replace(w[i+1:j], "*", " ", 1), "%g %g", &a, &b); err == nil {
			text = strings.Replace(text, w[i+1:j], fmt.Sprintf("%g", a*b), 1)
		}
	}
	return text
}
