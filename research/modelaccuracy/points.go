package main

import (
	"embed"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/engine/vllm"
	"github.com/sixty-dev/sixty/internal/modelconfig"
	"github.com/sixty-dev/sixty/internal/sim"
	"github.com/sixty-dev/sixty/internal/sim/perfmodel"
	"github.com/sixty-dev/sixty/internal/sim/workload"
)

//go:embed points heldout.json limits.json
var files embed.FS

// A Point is one published measurement.
type Point struct {
	Name  string `json:"name"`
	Model string `json:"model"` // a file of points/models
	GPU   string `json:"gpu"`
	Host  string `json:"host"` // whose machine: its processor and links are its own
	VLLM  string `json:"vllm"`
	Args  string `json:"args"` // of vllm serve
	Load  Load   `json:"load"`

	// Cached says that prompts of earlier tests may have been in the prefix cache. Then TTFT does not count.
	Cached bool `json:"cached"`

	// Doubt multiplies the error that is expected, if the publication lacks something that determines the measurement;
	// 0 is 1.
	Doubt float64 `json:"doubt"`

	Measured Measures            `json:"measured"`
	Peers    map[string]Measures `json:"peers"` // what other simulators' publications predict for it
	Source   string              `json:"source"`
}

// A Load is what a benchmark sent. Without a rate or clients all requests were sent at once.
type Load struct {
	Requests int     `json:"requests"`
	Clients  int     `json:"clients"` // each sends its next request after the end of its last
	Rate     float64 `json:"rate"`    // per second
	Arrival  string  `json:"arrival"` // of a rate: evenly spaced, or "poisson"
	Seconds  float64 `json:"duration_s"`
	Prompt   float64 `json:"prompt"` // mean tokens
	Output   float64 `json:"output"`
	// Shape is the distribution of lengths: "constant"; "sharegpt", of which only the means are known; "drawn", from
	// Lengths; "listed", with the arrival in milliseconds, prompt and output of each request.
	Shape   string    `json:"shape"`
	Lengths [2]string `json:"lengths"` // of prompts and outputs, as --prompt-tokens takes them
	Listed  [][3]int  `json:"listed"`

	// Prompts is the number of different prompts, which are sent in turn. From its second time on a prompt is in the
	// prefix cache. 0: no prompt comes twice.
	Prompts      int `json:"prompts"`
	PrefixGroups int `json:"prefix_groups"` // of system prompts
	Prefix       int `json:"prefix"`        // tokens of one
}

// Measures are what clients measured on average: milliseconds, and output tokens per second. Zero means unknown.
type Measures struct {
	TTFT   float64 `json:"ttft_mean_ms"`
	TPOT   float64 `json:"tpot_mean_ms"`
	ITL    float64 `json:"itl_mean_ms"`
	E2E    float64 `json:"e2e_mean_ms"`
	Tokens float64 `json:"output_tok_s"`
}

// quantities are the names of the fields of Measures, in the order of values.
var quantities = []string{"TTFT", "TPOT", "ITL", "E2E", "tokens/s"}

func (m Measures) values() [5]float64 {
	return [5]float64{m.TTFT, m.TPOT, m.ITL, m.E2E, m.Tokens}
}

// saturated reports whether the load is more than the server can run at once: requests queue, or the batch is at its
// limit.
func (p *Point) saturated() bool {
	l := &p.Load
	return l.Rate == 0 && (l.Clients > manyClients || l.Clients == 0 && (l.Requests > 20 || l.Shape == "listed"))
}

// manyClients is the number of closed-loop clients that are as good as a burst.
const manyClients = 100

// class returns the point's class: loads and deployments with similar errors.
func (p *Point) class() string {
	class := "moderate load"
	if p.saturated() {
		class = "saturated"
	}
	if p.parallel() > 1 {
		class += ", tensor parallel"
	}
	return class
}

// parallel returns the number of GPUs.
func (p *Point) parallel() int {
	n, _, _ := engine.ParseArgs(p.Args, p.Name).Number(engine.TensorParallelSize)
	return max(int(n), 1)
}

// load reads a list of this package's data.
func load[T any](file string) (list []T, err error) {
	content, err := files.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(content, &list)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return list, nil
}

// prepared is a point with all that its prediction needs.
type prepared struct {
	Point
	shape *perfmodel.Shape // on its host
	plain *perfmodel.Shape // on any
	// fits says that the size of the KV cache is known well enough to fit step times to the point.
	fits     bool
	config   sim.Config
	requests []sim.Request
}

// ledger returns the memory of the point's server and its known settings, with the published number of blocks, if any.
func (p *Point) ledger(published bool) (l *perfmodel.Ledger, args engine.Config, blocks int, err error) {
	content := modelconfig.Published(p.Model)
	if content == nil {
		if content, err = files.ReadFile("points/models/" + p.Model + ".json"); err != nil {
			return nil, nil, 0, err
		}
	}
	m, err := modelconfig.Parse(content)
	if err != nil {
		return nil, nil, 0, fmt.Errorf("%s: %w", p.Name, err)
	}
	gpu, err := perfmodel.FindGPU(p.GPU)
	if err != nil {
		return nil, nil, 0, fmt.Errorf("%s: %w", p.Name, err)
	}
	args = engine.ParseArgs(p.Args, p.Name)
	s, err := perfmodel.Settings{Release: engine.Release(p.VLLM), Device: gpu}.With(args)
	blocks = s.NumBlocksOverride
	if !published {
		s.NumBlocksOverride = 0
	}
	if err == nil {
		l, err = perfmodel.NewLedger(m, s)
	}
	if err != nil {
		return nil, nil, 0, fmt.Errorf("%s: %w", p.Name, err)
	}
	return l, args, blocks, nil
}

// prepare computes the deployment and the requests.
func (p *Point) prepare() (*prepared, error) {
	l, known, blocks, err := p.ledger(true)
	if err != nil {
		return nil, err
	}
	known.Merge(l.EngineConfig("the ledger"))
	e, err := perfmodel.NewEngine(l.Settings.Release, known, &l.Settings.Device)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.Name, err)
	}
	prompt, output := p.Load.means()
	c := &prepared{Point: *p, config: e.Config, plain: l.Shape(prompt + output/2)}
	c.shape = c.plain
	if !l.Settings.Release.AtLeast(vllm.AsyncSchedulingByDefault) {
		// Of the engine as it is now too few hosts were measured to tell what is theirs.
		c.shape = c.plain.On(p.Host)
	}
	c.config.BlockSize = 16
	c.config.NumBlocks = l.PlainBlocks(int(prompt+output), c.config.BlockSize)
	c.requests = p.Load.draw(c.config.BlockSize)
	c.fits = blocks > 0 || l.Blocks.Low > 0 && l.Blocks.High < 1.4*l.Blocks.Low || !p.saturated()
	return c, nil
}

func (l *Load) means() (prompt, output float64) {
	if len(l.Listed) == 0 {
		return l.Prompt, l.Output
	}
	for _, r := range l.Listed {
		prompt += float64(r[1]) / float64(len(l.Listed))
		output += float64(r[2]) / float64(len(l.Listed))
	}
	return prompt, output
}

// longest is how much of a steady load is simulated: means over it are those over the whole.
const longest = 30.0

// draw returns the load's requests, the same ones every time.
func (l *Load) draw(blockSize int) []sim.Request {
	var out []sim.Request
	if len(l.Listed) > 0 {
		for _, r := range l.Listed {
			out = append(out, sim.Request{Arrival: time.Duration(r[0]) * time.Millisecond, PromptTokens: r[1],
				OutputTokens: r[2]})
		}
		return out
	}
	n := l.Requests
	if l.Rate > 0 && n == 0 {
		n = int(l.Rate * min(l.Seconds, max(longest, 100/l.Rate)))
	}
	n += l.Prompts
	distinct := n
	if l.Prompts > 0 && l.Shape == "sharegpt" {
		distinct = l.Prompts
	}
	prompts, outputs := l.lengths(0, l.Prompt, distinct), l.lengths(1, l.Output, distinct)
	rng := rand.New(rand.NewPCG(3, 0))
	at := 0.0 // seconds
	for i := range n {
		r := sim.Request{PromptTokens: prompts[i%distinct], OutputTokens: outputs[i%distinct]}
		if l.Rate > 0 {
			r.Arrival = time.Duration(at * 1e9)
			gap := 1.0
			if l.Arrival == "poisson" {
				gap = rng.ExpFloat64()
			}
			at += gap / l.Rate
		}
		if l.PrefixGroups > 0 {
			r.Blocks = sim.SharedPrefix(uint64(i%l.PrefixGroups), l.Prefix, blockSize)
		}
		if l.Prompts > 0 {
			own := sim.SharedPrefix(uint64(l.PrefixGroups+i%l.Prompts), r.PromptTokens, blockSize)
			copy(own, r.Blocks)
			r.Blocks = own
		}
		out = append(out, r)
	}
	return out
}

// lengths returns n lengths of prompts (0) or outputs (1) with a mean. ShareGPT's lengths, as vLLM's benchmark filters
// them, are close to a lognormal distribution with a coefficient of variation of 1.3 that ends at 1024 tokens.
func (l *Load) lengths(which int, mean float64, n int) []int {
	out := make([]int, n)
	rng := rand.New(rand.NewPCG(uint64(which)+1, 0))
	switch drawn, err := workload.ParseLengths(l.Lengths[which]); {
	case l.Shape == "drawn" && err == nil:
		for i := range out {
			out[i] = drawn.Draw(rng)
		}
		return out
	case l.Shape != "sharegpt":
		for i := range out { // fractions of a mean are spread evenly
			out[i] = max(int(math.Floor(mean*float64(i+1)))-int(math.Floor(mean*float64(i))), 1)
		}
		return out
	}
	sigma := math.Sqrt(math.Log(1 + 1.3*1.3))
	middle := mean
	for range 40 {
		sum := 0.0
		for i := range out {
			q := (float64(i) + 0.5) / float64(n)
			v := min(max(middle*math.Exp(sigma*math.Sqrt2*math.Erfinv(2*q-1)), 4), 1024)
			out[i] = int(math.Round(v))
			sum += v
		}
		middle *= mean / (sum / float64(n))
	}
	rng.Shuffle(n, func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

// predict simulates the point's load with a step cost. It also returns the work.
func (c *prepared) predict(cost sim.StepCost, f sim.Frontend) (Measures, sim.Work, error) {
	res, err := sim.Run(c.config, cost, c.requests, sim.Options{Frontend: f, Clients: c.Load.Clients})
	if err != nil {
		return Measures{}, sim.Work{}, fmt.Errorf("%s: %w", c.Name, err)
	}
	s := sim.Summarize(res.Records[c.Load.Prompts:]) // without those that fill the cache
	const ms = 1e3
	m := Measures{TTFT: s.TTFT.Mean.Seconds() * ms, TPOT: s.TPOT.Mean.Seconds() * ms, E2E: s.E2E.Mean.Seconds() * ms,
		Tokens: s.OutputPerSecond}
	m.ITL = m.TPOT // with equal lengths they are the same
	return m, res.Replicas[0].Stats.Work, nil
}

// prepareAll prepares all points.
func prepareAll() ([]*prepared, error) {
	points, err := load[Point]("points/points.json")
	if err != nil {
		return nil, err
	}
	out := make([]*prepared, len(points))
	for i := range points {
		if out[i], err = points[i].prepare(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// chip returns the point's GPU without its power limit and form factor.
func (p *Point) chip() string {
	g, _ := perfmodel.FindGPU(p.GPU) // which prepare has found
	name, _, _ := strings.Cut(g.Chip, " ")
	return name
}

// publisher returns who measured the point.
func (p *Point) publisher() string {
	name, _, _ := strings.Cut(p.Host, " ")
	return name
}

// later returns the group of points of later releases, "" for other points.
func (p *Point) later() string {
	if engine.Release(p.VLLM).AtLeast(vllm.AsyncSchedulingByDefault) {
		return "0.14 and later"
	}
	return ""
}

// architecture returns the point's model without its quantization.
func (p *Point) architecture() string {
	name := p.Model
	for _, q := range []string{"-fp8", "-awq"} {
		name = strings.TrimSuffix(name, q)
	}
	return name
}
