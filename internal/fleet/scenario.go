package fleet

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/sim"
)

// A Scenario is a deployment with phases, in which faults begin and end. The fault of a phase is a mechanism: too much
// traffic, slower steps, a process that stops. The metrics then follow from the simulation, except for a GPU's reports
// of its own health.
type Scenario struct {
	Name     string // the id of its verdict
	Title    string
	Fault    string // in a few words, for a table
	Replicas int    // 0 is 1
	Settings Settings
	Interval time.Duration // between two scrapes; 0 is a second
	Phases   []Phase
}

// Over returns the scenario with the traffic for a number of replicas: each replica gets as much as with the scenario's
// own number.
func (s Scenario) Over(replicas int) Scenario {
	own := max(s.Replicas, 1)
	if replicas <= own {
		return s
	}
	s.Phases = slices.Clone(s.Phases)
	for i := range s.Phases {
		t := &s.Phases[i].Traffic
		t.Rate *= float64(replicas) / float64(own)
		t.Clients = t.Clients * replicas / own
	}
	return s
}

// Settings are the settings of a scenario's servers; a zero field is the fleet's default.
type Settings struct {
	MaxNumSeqs, MaxNumBatchedTokens, MaxModelLen, NumBlocks, BlockSize int
	MaxQueuedRequests                                                  int // 0: no limit

	NoChunkedPrefill, NoPrefixCaching bool

	Drafted             int // as in Server
	Transfers, Offloads bool
	ChecksNaN           bool

	Cost     sim.StepCost
	HostTime time.Duration
}

// With returns the settings, changed by arguments of vllm serve, and the flags that have no effect on the simulation.
func (s Settings) With(args engine.Config) (Settings, []string, error) {
	numbers := map[string]*int{
		engine.MaxNumSeqs: &s.MaxNumSeqs, engine.MaxNumBatchedTokens: &s.MaxNumBatchedTokens,
		engine.MaxModelLen:       &s.MaxModelLen,
		engine.NumBlocksOverride: &s.NumBlocks, engine.BlockSize: &s.BlockSize,
		engine.MaxQueuedRequests: &s.MaxQueuedRequests,
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
		switch flag {
		case engine.SpeculativeConfig:
			var o struct {
				Tokens int `json:"num_speculative_tokens"`
			}
			if err := json.Unmarshal([]byte(args[flag].Value), &o); err != nil || o.Tokens < 1 || o.Tokens > 128 {
				return s, nil, fmt.Errorf("--%s: want a JSON object with num_speculative_tokens from 1 to 128", flag)
			}
			s.Drafted = o.Tokens
		case engine.KVTransferConfig:
			s.Offloads = strings.Contains(args[flag].Value, "OffloadingConnector")
			s.Transfers = s.Offloads || strings.Contains(args[flag].Value, "NixlConnector")
		default:
			ignored = append(ignored, "--"+flag)
		}
	}
	return s, ignored, nil
}

// A Phase is a time with constant traffic and faults.
type Phase struct {
	Name    string
	Tell    string // the event, for readers who have never seen vLLM
	For     time.Duration
	Traffic Traffic
	Faults  Faults
	Route   []float64 // weights of the replicas; nil: the least loaded

	Want   string   // the verdict at the end
	Why    string   // its signs, in plain words
	Accept []string // verdicts that are equally true
}

// Faults are the faults of the servers.
type Faults struct {
	Only int // the affected replica, from 1; 0: all

	Down, Hang  bool
	Page        int     // every n-th scrape gets no page; 0: all do
	Slow        float64 // factor of every step's duration; 0 is 1
	SlowPrefill float64 `yaml:"slow_prefill"` // factor of a prompt token's cost; 0 is 1
	// HeldBefore is how long each request waits before the engine process gets it.
	HeldBefore     time.Duration `yaml:"held_before"`
	LeakPerRequest float64       `yaml:"leak_per_request"` // bytes that the API server never frees
	GPU            GPUFault

	Rejects       float64       // share of drafted tokens that the model rejects; 0 is a fifth
	TransfersFail float64       `yaml:"transfers_fail"` // share of prompts whose KV is computed here after all
	TransferTakes time.Duration `yaml:"transfer_takes"` // duration of a transfer; 0 is 20 ms
	NoPrefill     bool          `yaml:"no_prefill"`     // prompts come without their KV, which is computed here
	Corrupt       float64       // share of requests whose logits hold NaN
}

// acceptedShare is the share of drafted tokens that the model accepts.
func (f *Faults) acceptedShare() float64 {
	if f.Rejects == 0 {
		return 0.8
	}
	return 1 - f.Rejects
}

// slowedCost returns the cost of steps under the faults. Steps take longer in proportion to a lowered clock. Prompts
// whose KV was fetched need no prefill here.
func (f *Faults) slowedCost(s Server) sim.StepCost {
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
	if s.Transfers {
		here := max(f.TransfersFail, 0.02)
		if f.NoPrefill {
			here = 1
		}
		prefill *= here
	}
	by := sim.Uniform(all)
	by.Mixed, by.PerToken, by.PerPair = all*prefill, all*prefill, all*prefill
	return s.Cost.Scale(by)
}

// DefaultCost is about an 8B model on an A100: 10 ms for a decode step, 16,000 prompt tokens a second.
var DefaultCost = sim.StepCost{
	Base: 10e-3, Mixed: 1e-3, PerSeq: 20e-6, PerToken: 60e-6, PerKV: 80e-9, PerPair: 1e-9,
	Knee: 256,
}

// Server returns a server of a release with the settings.
func (s Settings) Server(r engine.Release, model string) (Server, error) {
	cfg, err := sim.Defaults(r)
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
	cfg.MaxQueuedRequests = s.MaxQueuedRequests
	cfg.ChunkedPrefill, cfg.PrefixCaching = !s.NoChunkedPrefill, !s.NoPrefixCaching
	server := Server{
		Release: r, Model: model, Engine: cfg, Cost: s.Cost, HostTime: s.HostTime,
		Drafted: s.Drafted, Transfers: s.Transfers, Offloads: s.Offloads, ChecksNaN: s.ChecksNaN,
	}
	if s.Cost == (sim.StepCost{}) {
		server.Cost = DefaultCost
	}
	return server, server.validate()
}

// validate refuses settings that vLLM would refuse.
func (s Server) validate() error {
	if err := s.Engine.Validate(); err != nil {
		return err
	}
	if !s.Engine.Fits(s.Engine.MaxModelLen, 0) {
		return hint.With(fmt.Errorf("a KV cache of %d blocks of %d tokens cannot hold one sequence of max-model-len %d",
			s.Engine.NumBlocks, s.Engine.BlockSize, s.Engine.MaxModelLen),
			"vLLM refuses to start like this: lower max-model-len")
	}
	return s.Cost.Validate()
}

// WithoutTraffic returns a scenario without virtual clients.
func WithoutTraffic() Scenario {
	return Scenario{Name: "quiet", Title: "No traffic but yours", Phases: []Phase{{Name: "quiet", Want: "idle"}}}
}

// usualTraffic returns prompts of a few hundred tokens with answers of a paragraph. newCore refuses invalid lengths.
func usualTraffic() Traffic {
	t := Traffic{Rate: 4}
	_ = t.Spec.Prompt.UnmarshalText([]byte("lognormal:400,0.5:50-1600"))
	_ = t.Spec.Output.UnmarshalText([]byte("lognormal:120,0.5:20-400"))
	return t
}

func healthyPhase() Phase {
	return Phase{
		Name: "healthy", For: time.Minute, Traffic: usualTraffic(), Want: "healthy",
		Tell: "Four requests arrive per second, with prompts of about 400 tokens and answers of about 120. The " +
			"engine can serve many more.",
		Why: "First tokens come quickly, no request waits for long, and nothing is worse than normal for this server.",
	}
}

func healthyScenario() Scenario {
	p := healthyPhase()
	p.For = 2 * time.Minute
	return Scenario{
		Name: "healthy", Title: "Steady traffic that the server carries with ease",
		Fault: "none: four requests a second", Phases: []Phase{p},
	}
}

func idleScenario() Scenario {
	return Scenario{Name: "idle", Title: "No requests", Fault: "no requests", Phases: []Phase{healthyPhase(), {
		Name: "nobody", Tell: "The users have gone home.", For: sick, Want: "idle",
		Why: "Hardly any request comes and the batch is empty: there is nothing to judge, and nothing wrong.",
	}}}
}
