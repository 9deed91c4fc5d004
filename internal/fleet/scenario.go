package fleet

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/engine"
	"github.com/sixty-dev/sixty/internal/hint"
	"github.com/sixty-dev/sixty/internal/sim"
	"github.com/sixty-dev/sixty/internal/workload"
)

// A Scenario is a deployment and what happens to it. The fault of a phase is a
// mechanism: traffic that does not fit, slower steps, a process that stops. What
// the metrics then show is the simulation's doing, but for what a GPU reports of
// its own health.
type Scenario struct {
	Name     string // the id of the verdict that it leads to
	Title    string
	Replicas int // 0 is 1
	Settings Settings
	Interval time.Duration // between two scrapes that show it well; 0 is a second
	Phases   []Phase
}

// Settings are what a scenario's servers are started with; a zero field is the
// default of the fleet.
type Settings struct {
	MaxNumSeqs, MaxNumBatchedTokens, MaxModelLen, NumBlocks, BlockSize int

	NoChunkedPrefill, NoPrefixCaching bool

	Cost     sim.StepCost
	HostTime time.Duration
}

// With returns the settings with arguments of vllm serve over them, and the
// flags among these that change nothing here.
func (s Settings) With(args engine.Config) (Settings, []string, error) {
	numbers := map[string]*int{
		engine.MaxNumSeqs: &s.MaxNumSeqs, engine.MaxNumBatchedTokens: &s.MaxNumBatchedTokens, engine.MaxModelLen: &s.MaxModelLen,
		engine.NumBlocksOverride: &s.NumBlocks, engine.BlockSize: &s.BlockSize,
	}
	switches := map[string]*bool{engine.ChunkedPrefill: &s.NoChunkedPrefill, engine.PrefixCaching: &s.NoPrefixCaching}
	var ignored []string
	for _, flag := range slices.Sorted(maps.Keys(args)) {
		if to := numbers[flag]; to != nil {
			v, _, ok := args.Number(flag)
			if !ok || v < 1 || v > 1e9 {
				return s, nil, fmt.Errorf("--%s: %q is not a number of at least 1", flag, args[flag].Value)
			}
			*to = int(v)
			continue
		}
		if to := switches[flag]; to != nil {
			on, ok := args.Bool(flag)
			if !ok {
				return s, nil, fmt.Errorf("--%s: %q is neither true nor false", flag, args[flag].Value)
			}
			*to = !on
			continue
		}
		ignored = append(ignored, "--"+flag)
	}
	return s, ignored, nil
}

// A Phase is a time in which nothing about a deployment changes.
type Phase struct {
	Name    string
	Tell    string // what is done, for somebody who has never seen vLLM
	For     time.Duration
	Traffic Traffic
	Faults  Faults
	Route   []float64 // weights of the replicas; nil is where the load is least

	Want   string   // the verdict at the end
	Why    string   // how one can tell, in plain words
	Accept []string // verdicts that are as true
}

// Faults are what is wrong with the servers.
type Faults struct {
	Only int // the replica, from 1; 0 is all

	Down, Hang     bool
	Slow           float64 // every step takes so many times as long; 0 is 1
	SlowPrefill    float64 // a prompt token costs so many times as much; 0 is 1
	LeakPerRequest float64 // bytes that the API server never gives back
	GPU            GPUFault
}

// slow returns what steps cost under the faults. A GPU whose clock is lowered
// computes slower by as much.
func (f *Faults) slow(c sim.StepCost) sim.StepCost {
	all, prefill := 1.0, 1.0
	if f.Slow > 0 {
		all = f.Slow
	}
	if f.GPU.ClockMHz > 0 {
		all *= highestClock / f.GPU.ClockMHz
	}
	if f.SlowPrefill > 0 {
		prefill = f.SlowPrefill
	}
	by := sim.Uniform(all)
	by.Mixed, by.PerToken, by.PerPair = all*prefill, all*prefill, all*prefill
	return c.Scale(by)
}

// DefaultCost is of the order of an 8B model on an A100: 10 ms for a decode step,
// 16,000 prompt tokens a second.
var DefaultCost = sim.StepCost{Base: 10e-3, Mixed: 1e-3, PerSeq: 20e-6, PerToken: 60e-6, PerKV: 80e-9, PerPair: 1e-9, Knee: 256}

// Server returns a server with the settings, of a release.
func (s Settings) Server(r engine.Release, model string) (Server, error) {
	rules := r
	if v0(r) {
		rules = engine.V1ByDefault // the V0 scheduler is not modelled; the nearest is
	}
	cfg, err := sim.Defaults(rules)
	if err != nil {
		return Server{}, err
	}
	cfg.MaxModelLen, cfg.NumBlocks = 8192, 4096
	override := func(to *int, v int) {
		if v != 0 {
			*to = v
		}
	}
	override(&cfg.MaxNumSeqs, s.MaxNumSeqs)
	cfg.MaxNumBatchedTokens = max(cfg.MaxNumBatchedTokens, cfg.MaxNumSeqs)
	override(&cfg.MaxNumBatchedTokens, s.MaxNumBatchedTokens)
	override(&cfg.MaxModelLen, s.MaxModelLen)
	override(&cfg.NumBlocks, s.NumBlocks)
	override(&cfg.BlockSize, s.BlockSize)
	cfg.ChunkedPrefill, cfg.PrefixCaching = !s.NoChunkedPrefill, !s.NoPrefixCaching
	server := Server{Release: r, Model: model, Engine: cfg, Cost: s.Cost, HostTime: s.HostTime}
	if s.Cost == (sim.StepCost{}) {
		server.Cost = DefaultCost
	}
	return server, server.validate()
}

// validate refuses what vLLM would not start with.
func (s Server) validate() error {
	if err := s.Engine.Validate(); err != nil {
		return err
	}
	if !s.Engine.Fits(s.Engine.MaxModelLen, 0) {
		return hint.With(fmt.Errorf("a KV cache of %d blocks of %d tokens cannot hold one sequence of max-model-len %d",
			s.Engine.NumBlocks, s.Engine.BlockSize, s.Engine.MaxModelLen), "vLLM refuses to start like this: lower max-model-len")
	}
	return s.Cost.Validate()
}

// FindScenario returns a scenario by its name.
func FindScenario(name string) (Scenario, error) {
	all := Scenarios()
	if i := slices.IndexFunc(all, func(s Scenario) bool { return s.Name == name }); i >= 0 {
		return all[i], nil
	}
	var names []string
	for _, s := range all {
		names = append(names, s.Name)
	}
	return Scenario{}, hint.With(fmt.Errorf("there is no scenario %q", name), "one of "+strings.Join(names, ", "))
}

// Quiet is a fleet without any traffic of its own.
func Quiet() Scenario {
	return Scenario{Name: "quiet", Title: "No traffic but yours", Phases: []Phase{{Name: "quiet", Want: "idle"}}}
}

// requests describes prompts and answers by their distributions, as package
// workload reads them. A mistake makes lengths that are not valid, which
// newCore refuses.
func requests(prompt, output string) workload.Spec {
	var s workload.Spec
	_ = s.Prompt.UnmarshalText([]byte(prompt))
	_ = s.Output.UnmarshalText([]byte(output))
	return s
}

// grouped is requests that share the beginning of their prompts in groups.
func grouped(prompt, output string, share float64, groups int) workload.Spec {
	s := requests(prompt, output)
	s.PrefixShare, s.PrefixGroups = share, groups
	return s
}

// leaving is requests of which a share is abandoned in mid-answer.
func leaving(prompt, output string, share float64) workload.Spec {
	s := requests(prompt, output)
	s.CancelShare = share
	return s
}

// The usual traffic: questions of some hundred tokens, answers of a paragraph.
const (
	usualPrompt = "lognormal:400,0.5:50-1600"
	usualOutput = "lognormal:120,0.5:20-400"
)

var usual = Traffic{Rate: 4, Spec: requests(usualPrompt, usualOutput)}

const usualTell = "Four users a second ask questions of some 400 tokens and get answers of some 120. The engine has plenty of room."

const healthyWhy = "First tokens come quickly, nobody waits for long, and nothing is worse than what is normal for this server."

func healthyPhase(t Traffic, tell string) Phase {
	return Phase{Name: "healthy", Tell: tell, For: time.Minute, Traffic: t, Want: "healthy", Why: healthyWhy}
}

// Scenarios lists every scenario: one for each pathology of the catalogue, and
// the two verdicts of a server that nothing is wrong with. They are the
// caller's to change.
func Scenarios() []Scenario {
	all := slices.Clone(scenarios)
	for i := range all {
		all[i].Phases = slices.Clone(all[i].Phases)
	}
	return all
}

// sick is how long most faults are played.
const sick = 70 * time.Second

var (
	normal = healthyPhase(usual, usualTell)
	long   = requests("lognormal:500,0.3:100-1200", "lognormal:1500,0.3:600-3000")
)

var scenarios = []Scenario{
	{Name: "healthy", Title: "Steady traffic that the server carries with ease", Phases: []Phase{
		{Name: "healthy", Tell: usualTell, For: 2 * time.Minute, Traffic: usual, Want: "healthy", Why: healthyWhy},
	}},
	{Name: "kv-cache-thrashing", Title: "Long answers overfill the KV cache", Settings: Settings{NumBlocks: 1100}, Phases: []Phase{
		normal,
		{Name: "long answers", Tell: "Thirty users now want answers of 1500 tokens each. All of them are let in, and while their answers grow the memory for what was read so far (the KV cache) runs out: the engine throws requests out and computes them again.",
			For: sick, Traffic: Traffic{Clients: 30, Spec: long}, Want: "kv-cache-thrashing",
			Why: "The cache is full and requests are thrown out of it again and again: memory is what lacks, not computing power. That others wait and that answers take longer follows from that."},
	}},
	{Name: "saturation", Title: "More work than the server can do", Settings: Settings{MaxNumSeqs: 32, NumBlocks: 1500}, Phases: []Phase{
		healthyPhase(Traffic{Rate: 3, Spec: requests(usualPrompt, "lognormal:200,0.4:50-500")}, "Three users a second. The server can carry about ten."),
		{Name: "twice the capacity", Tell: "The traffic grows fivefold. All 32 seats of the batch are taken, the memory behind them is nearly full, and whoever comes must wait.",
			For: sick, Traffic: Traffic{Rate: 22, Spec: requests(usualPrompt, "lognormal:200,0.4:50-500")}, Want: "saturation",
			Why: "Requests wait all the time and first tokens come late, while the batch and the cache are well used: there is simply more work than this server can do."},
	}},
	{Name: "concurrency-limit", Title: "A batch limited to four while the engine has room for more", Settings: Settings{MaxNumSeqs: 4}, Phases: []Phase{
		healthyPhase(Traffic{Rate: 1, Spec: requests(usualPrompt, usualOutput)}, "One user a second, and --max-num-seqs 4: the four seats are enough."),
		{Name: "five a second", Tell: "Five users a second: the four seats are always taken and a queue grows, though the memory is nearly empty and a larger batch would hardly be slower.",
			For: sick, Traffic: Traffic{Rate: 5, Spec: requests(usualPrompt, usualOutput)}, Want: "concurrency-limit",
			Why: "Requests wait although the cache is half empty and a step is still quick: the number of seats is what holds them up."},
	}},
	{Name: "prefill-starvation", Title: "Huge prompts without chunked prefill hold everybody up", Settings: Settings{NoChunkedPrefill: true, MaxNumBatchedTokens: 16384, MaxModelLen: 16384, Cost: slowPrompts}, Phases: []Phase{
		healthyPhase(Traffic{Rate: 3, Spec: requests("lognormal:200,0.3:50-500", usualOutput)}, "Three users a second with short questions."),
		{Name: "huge prompts", Tell: "Now and then somebody sends a prompt of 12,000 tokens. Chunked prefill is off, so that nobody else gets a token until it has been read whole.",
			For: sick, Traffic: Traffic{Rate: 3.2, Spec: mixed("lognormal:200,0.3:50-500", usualOutput, 0.08, "uniform:10000-14000", "50")}, Want: "prefill-starvation",
			Why: "First tokens come late and running streams pause, while the usual step is as quick as ever. Some prompts are many times longer than the others, and block the engine while they are read."},
	}},
	{Name: "slow-prefill", Title: "Reading prompts has become slow, writing has not", Phases: []Phase{
		healthyPhase(Traffic{Rate: 1.6, Spec: requests("lognormal:1000,0.2:600-1400", "uniform:25-60")}, "Prompts of a thousand tokens, short answers."),
		{Name: "slow prefill", Tell: "Every prompt token now costs five times as much to read, as with a wrong kernel after an update. Nothing queues, and once a stream runs it is as quick as ever.",
			For: sick, Traffic: Traffic{Rate: 1.6, Spec: requests("lognormal:1000,0.2:600-1400", "uniform:25-60")}, Faults: Faults{SlowPrefill: 5}, Want: "slow-prefill",
			Why: "Nothing waits and streams run smoothly, but each prompt token costs several times what it used to."},
	}},
	{Name: "prefix-cache-misses", Title: "Too many different prefixes for the prefix cache", Settings: Settings{NumBlocks: 1500}, Phases: []Phase{
		healthyPhase(Traffic{Rate: 3, Spec: grouped("uniform:1600-2000", "uniform:40-120", 0.9, 3)}, "Prompts of 1800 tokens, of which nine tenths are one of three system prompts: they are read once and remembered."),
		{Name: "sixty prefixes", Tell: "The application now has sixty system prompts. They push each other out of the cache before they can be used again, so that every prompt is read from its beginning.",
			For: sick, Traffic: Traffic{Rate: 3, Spec: grouped("uniform:1600-2000", "uniform:40-120", 0.9, 60)}, Want: "prefix-cache-misses",
			Why: "The share of prompt tokens found in the cache fell, and though prompts are as long as before, much more has to be computed for each."},
	}},
	{Name: "slow-decode", Title: "Every token takes five times as long", Phases: []Phase{
		normal,
		{Name: "slow steps", Tell: "The same traffic, but every step of the engine takes five times as long, as when somebody else uses the GPU's memory.",
			For: sick, Traffic: usual, Faults: Faults{Slow: 5}, Want: "slow-decode",
			Why: "The time between two tokens rose, and not because of a larger batch. Nothing waits, no cache is full: the step itself is slow."},
	}},
	{Name: "severe-degradation", Title: "A slower engine near its capacity: everything is bad at once", Settings: Settings{MaxNumSeqs: 16}, Phases: []Phase{
		healthyPhase(Traffic{Rate: 5.5, Spec: requests(usualPrompt, usualOutput)}, "Five and a half users a second fill half of the 16 seats."),
		{Name: "six times slower", Tell: "Every step takes six times as long. The seats no longer suffice, so that a queue grows too.",
			For: sick, Traffic: Traffic{Rate: 5.5, Spec: requests(usualPrompt, usualOutput)}, Faults: Faults{Slow: 6}, Want: "severe-degradation",
			Why: "Tokens come slowly, first tokens late, and requests wait: the engine is slower than itself, and the queue is a consequence."},
	}},
	{Name: "workload-shift", Title: "The prompts have become six times longer", Phases: []Phase{
		healthyPhase(Traffic{Rate: 2, Spec: requests("lognormal:400,0.3:100-1000", usualOutput)}, "Two users a second with questions of 400 tokens."),
		{Name: "longer prompts", Tell: "The same users paste documents: 2400 tokens a prompt. The server works as well as before; it has more to read.",
			For: sick, Traffic: Traffic{Rate: 2, Spec: requests("lognormal:2400,0.3:1000-4000", usualOutput)}, Want: "workload-shift",
			Why: "A prompt token costs what it did; there are just more of them. The traffic changed, not the server."},
	}},
	{Name: "gpu-underutilization", Title: "A large GPU for two users", Settings: Settings{HostTime: 6 * time.Millisecond}, Phases: []Phase{
		healthyPhase(Traffic{Clients: 48, Spec: requests(usualPrompt, usualOutput)}, "48 users at once, and the host prepares each step in 6 ms."),
		{Name: "two users", Tell: "Two users remain. The engine always has something to do, but it hands the GPU so little that most of it idles.",
			For: sick, Traffic: Traffic{Clients: 2, Spec: requests(usualPrompt, usualOutput)}, Want: "gpu-underutilization",
			Why: "There is always a request in flight, but the batch is tiny and the GPU idle most of the time."},
	}},
	{Name: "memory-leak", Title: "The API server keeps something of every request", Interval: 5 * time.Second, Phases: []Phase{
		{Name: "healthy", Tell: usualTell, For: 5 * time.Minute, Traffic: usual, Want: "healthy", Why: healthyWhy},
		{Name: "leak", Tell: "After an update, 150 kB of every request stay in memory for ever. Users notice nothing yet.",
			For: 15 * time.Minute, Traffic: usual, Faults: Faults{LeakPerRequest: 150e3}, Want: "memory-leak",
			Why: "Memory only grows, while requests complete as always and nothing queues that could hold it."},
	}},
	{Name: "engine-hung", Title: "The engine process stops while the API server answers", Phases: []Phase{
		normal,
		{Name: "hang", Tell: "The engine stops in the middle of a step. The server still answers health checks, and its gauges stay as they were: only nothing moves any more.",
			For: 45 * time.Second, Traffic: usual, Faults: Faults{Hang: true}, Want: "engine-hung",
			Why: "Requests are in flight, and not one token has come for ten seconds. Gauges and health checks look fine, because another process answers them."},
	}},
	{Name: "engine-restart", Title: "The server dies and comes back", Phases: []Phase{
		normal,
		{Name: "restarting", Tell: "The server dies, and whoever was reading an answer loses it. It is started again.",
			For: 25 * time.Second, Traffic: usual, Faults: Faults{Down: true}, Want: "target-down",
			Why: "No scrape succeeds any more."},
		{Name: "back", Tell: "It serves again, with empty caches and counters at zero.",
			For: 40 * time.Second, Traffic: usual, Want: "engine-restart",
			Why: "The counters began again at zero a moment ago, after scrapes had failed: what is slow now is a cold start."},
	}},
	{Name: "client-cancellations", Title: "Users stop reading before the end", Phases: []Phase{
		normal,
		{Name: "impatience", Tell: "Six in ten users close their answer before it is complete. vLLM counts that nowhere: it shows as HTTP requests without a finished answer.",
			For: sick, Traffic: Traffic{Rate: 4, Spec: leaving(usualPrompt, usualOutput, 0.6)}, Want: "client-cancellations",
			Why: "More HTTP requests ended than answers were completed. The engine is fine: its clients leave."},
	}},
	{Name: "http-errors", Title: "Requests that are refused", Phases: []Phase{
		normal,
		{Name: "bad requests", Tell: "Half of the requests name an unknown model, want more tokens than it can hold, or have no prompt, and are refused.",
			For: 45 * time.Second, Traffic: Traffic{Rate: 8, Bad: 0.5, Spec: requests(usualPrompt, usualOutput)}, Want: "http-errors",
			Why: "Many answers are errors, with an engine in good health behind them."},
	}},
	{Name: "replica-imbalance", Title: "A router that sends everything to one replica", Replicas: 2, Phases: []Phase{
		healthyPhase(Traffic{Rate: 7, Spec: requests(usualPrompt, usualOutput)}, "Two servers share seven users a second evenly."),
		{Name: "uneven", Tell: "The router now sends 92 of 100 requests to the first.",
			For: sick, Traffic: Traffic{Rate: 7, Spec: requests(usualPrompt, usualOutput)}, Route: []float64{92, 8}, Want: "replica-imbalance",
			Why: "Both replicas are in order, but one gets far more than its share of the requests."},
	}},
	{Name: "gpu-throttling", Title: "A GPU too hot to keep its clock", Phases: []Phase{
		normal,
		{Name: "heat", Tell: "Cooling fails. The GPU protects itself by lowering its clock to two fifths, and everything takes longer.",
			For: sick, Traffic: usual, Faults: Faults{GPU: GPUFault{ClockMHz: 570, Reasons: reasonThermal, Temperature: 91}}, Want: "gpu-throttling",
			Why: "The GPU itself says that it lowered its clock because of heat. Slow tokens follow from that."},
	}},
	{Name: "gpu-hardware-errors", Title: "A GPU whose memory fails", Phases: []Phase{
		normal,
		{Name: "memory errors", Tell: "The GPU reports an uncorrectable memory error (XID 48).",
			For: 40 * time.Second, Traffic: usual, Faults: Faults{GPU: GPUFault{XID: 48, DoubleBit: 1}}, Want: "gpu-hardware-errors",
			Why: "The driver reports a failure of the hardware, which explains whatever else may be slow."},
	}},
	{Name: "target-down", Title: "The server is gone", Phases: []Phase{
		normal,
		{Name: "down", Tell: "The server's process is killed and nobody starts it again.",
			For: 30 * time.Second, Traffic: usual, Faults: Faults{Down: true}, Want: "target-down",
			Why: "No scrape succeeds any more."},
	}},
	{Name: "idle", Title: "Nobody asks anything", Phases: []Phase{
		normal,
		{Name: "nobody", Tell: "The users have gone home.", For: sick, Want: "idle",
			Why: "Hardly any request comes and the batch is empty: there is nothing to judge, and nothing wrong."},
	}},
}

// slowPrompts is a smaller GPU, on which a long prompt takes seconds.
var slowPrompts = sim.StepCost{Base: 10e-3, Mixed: 1e-3, PerSeq: 20e-6, PerToken: 150e-6, PerKV: 80e-9, PerPair: 3e-9, Knee: 256}

// mixed is two kinds of requests; share is that of the second.
func mixed(prompt, output string, share float64, prompt2, output2 string) workload.Spec {
	s, other := requests(prompt, output), requests(prompt2, output2)
	s.Tenants = []workload.Tenant{{Name: "usual", Weight: 1 - share}, {Name: "other", Weight: share, Prompt: other.Prompt, Output: other.Output}}
	return s
}
