package health

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/catalog/threshold"
	"github.com/sixty-dev/sixty/internal/render"
)

// A Price is what the servers cost.
type Price struct {
	GPU     string  // by the name of its data sheet
	PerHour float64 // of one GPU, in dollars; 0 where it is not known
	From    string  // what says so
	GPUs    int     // of one replica
}

// A Cost is what a model's servers cost over the span, and what came of it. Null is what is not known.
type Cost struct {
	GPU          string   `json:"gpu"`
	PerGPUHour   float64  `json:"dollars_per_gpu_hour"`
	PriceFrom    string   `json:"price_from"`
	GPUHours     *float64 `json:"gpu_hours"` // in which replicas answered
	Dollars      *float64 `json:"dollars"`
	Tokens       *float64 `json:"tokens"` // of prompts and answers
	OutputTokens *float64 `json:"output_tokens"`
	// PerMillion is of all tokens, PerMillionOutput of the output alone, in dollars.
	PerMillion       *float64 `json:"dollars_per_million_tokens"`
	PerMillionOutput *float64 `json:"dollars_per_million_output_tokens"`
	// Within is the share of requests whose first token came within the objective, Goodput how many
	// those are in a GPU hour.
	Objective *float64     `json:"objective_ttft_s"`
	Within    *float64     `json:"within_objective"`
	Goodput   *float64     `json:"goodput_per_gpu_hour"`
	Tenants   []TenantCost `json:"tenants"` // by the gateway, the dearest first
	Reason    string       `json:"reason"`  // why it is not known
}

// A TenantCost is the part of the cost by the tokens that a tenant asked for and got.
type TenantCost struct {
	Tenant     string  `json:"tenant"`
	Tokens     float64 `json:"tokens"`
	Dollars    float64 `json:"dollars"`
	PerMillion float64 `json:"dollars_per_million_tokens"`
}

// noPrice says how to give one.
const noPrice = "no price: give the GPU with --gpu H100, the number per replica with --tp, or your price with --price H100=2.49"

// cost computes what a pool cost.
func (m *measuring) cost(i int, p *pool, limits threshold.Sources) *Cost {
	price := m.c.Price
	c := &Cost{GPU: price.GPU, PerGPUHour: price.PerHour, PriceFrom: price.From, Tenants: []TenantCost{}}
	hours := m.sum(indicator.Up, i)
	if up := m.answers[indicator.Up.Name]; up.problem != "" {
		hours = math.NaN()
	}
	c.GPUHours = known(hours / 3600 * float64(max(price.GPUs, 1)))
	output := m.sum(indicator.GenerationTokenRate, i)
	all := output + m.sum(indicator.PromptTokenRate, i)
	c.Tokens, c.OutputTokens = known(all), known(output)
	m.goodput(c, i, limits)
	switch {
	case price.PerHour <= 0:
		c.Reason = noPrice
	case c.GPUHours == nil || *c.GPUHours == 0:
		c.Reason = "the replicas' running time is not known: up is not measured"
	case c.Tokens == nil || *c.Tokens == 0:
		c.Reason = "no tokens were counted"
		c.Dollars = known(*c.GPUHours * price.PerHour)
	default:
		dollars := *c.GPUHours * price.PerHour
		c.Dollars, c.PerMillion, c.PerMillionOutput = &dollars, known(dollars/all*1e6), known(dollars/output*1e6)
		asked := 0.0
		for _, v := range m.tenants[p.model] {
			asked += v
		}
		for name, v := range m.tenants[p.model] {
			part := dollars * v / asked
			c.Tenants = append(c.Tenants, TenantCost{Tenant: name, Tokens: v, Dollars: part, PerMillion: dollars / all * 1e6})
		}
		slices.SortFunc(c.Tenants, func(a, b TenantCost) int {
			return cmp.Or(cmp.Compare(b.Dollars, a.Dollars), cmp.Compare(a.Tenant, b.Tenant))
		})
	}
	return c
}

// sum adds up what all replicas of a pool had, a second, over the span.
func (m *measuring) sum(s *indicator.Signal, i int) float64 {
	a := m.answers[s.Name]
	if a.problem != "" || i >= len(a.byReplica) {
		return math.NaN()
	}
	sum, found := 0.0, false
	for _, values := range a.byReplica[i] {
		for _, v := range values[m.grid.split:] {
			if !math.IsNaN(v) {
				sum, found = sum+v*m.grid.step.Seconds(), true
			}
		}
	}
	if !found {
		return math.NaN()
	}
	return sum
}

// goodput counts the requests whose first token came within the objective.
func (m *measuring) goodput(c *Cost, i int, limits threshold.Sources) {
	k := slices.IndexFunc(threshold.Promises(), func(p threshold.Promise) bool { return p.Signal == indicator.TTFTP95 })
	if k < 0 {
		return
	}
	limit, ok := limits.Limit(threshold.Promises()[k].Threshold)
	a := m.answers[indicator.TTFTP95.Name]
	if !ok || a.problem != "" || i >= len(a.buckets) {
		return
	}
	within, all, below, above := 0.0, 0.0, 0.0, math.Inf(1)
	upTo := map[float64]float64{}
	for bound, values := range a.buckets[i] {
		for _, v := range values[m.grid.split:] {
			if !math.IsNaN(v) {
				upTo[bound] += v
			}
		}
		switch {
		case math.IsInf(bound, 1):
			all = upTo[bound]
		case bound <= limit.Value:
			below = max(below, bound)
		default:
			above = min(above, bound)
		}
	}
	if all <= 0 {
		return
	}
	// Within the bucket that holds the objective requests are taken to be spread evenly.
	within = upTo[below]
	if !math.IsInf(above, 1) {
		within += max(0, upTo[above]-upTo[below]) * (limit.Value - below) / (above - below)
	}
	c.Objective, c.Within = &limit.Value, known(min(1, within/all))
	if c.GPUHours != nil && *c.GPUHours > 0 {
		c.Goodput = known(min(within, all) / *c.GPUHours)
	}
}

// fetchTenants asks sixty gateway for the tokens of each tenant, by model.
func (m *measuring) fetchTenants(ctx context.Context) error {
	if m.c.Price.PerHour <= 0 {
		return nil
	}
	var where []string
	for _, match := range m.c.Matchers {
		where = append(where, match.String())
	}
	span := model.Duration(m.c.To.Sub(m.c.From).Truncate(time.Second))
	of := func(metric string) string {
		return fmt.Sprintf(`sum by (model, tenant) (increase(%s{%s}[%s]))`, metric, strings.Join(append(where[:len(where):len(where)], `tenant!=""`), ","), span)
	}
	m.tenants = map[string]map[string]float64{}
	for _, metric := range []string{"sixty_gateway_prompt_tokens_total", "sixty_gateway_output_tokens_total"} {
		answer, err := m.q.Query(ctx, of(metric), m.c.To)
		if err != nil {
			return fmt.Errorf("tokens of tenants: %w", err)
		}
		for _, s := range answer {
			name := string(s.Metric["model"])
			if m.tenants[name] == nil {
				m.tenants[name] = map[string]float64{}
			}
			if v := float64(s.Value); v > 0 {
				m.tenants[name][string(s.Metric["tenant"])] += v
			}
		}
	}
	return nil
}

// Text says a cost in a line, "" where it is not known.
func (c *Cost) Text() string {
	var parts []string
	if c.PerMillion != nil && c.PerMillionOutput != nil {
		parts = append(parts, fmt.Sprintf("%s per million tokens, %s per million of output: %.3g GPU hours at %s", dollars(*c.PerMillion), dollars(*c.PerMillionOutput), *c.GPUHours, dollars(c.PerGPUHour)))
	}
	if c.Goodput != nil {
		parts = append(parts, fmt.Sprintf("%.0f requests per GPU hour with a first token within %s (%s of all)", *c.Goodput, render.Seconds(*c.Objective), render.Percent(*c.Within)))
	}
	return strings.Join(parts, "; ")
}

func dollars(v float64) string {
	if v < 100 {
		return fmt.Sprintf("$%.3g", v)
	}
	return fmt.Sprintf("$%.0f", v)
}
