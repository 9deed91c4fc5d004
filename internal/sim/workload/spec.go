package workload

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/sixty-dev/sixty/internal/base/stat"
)

// A Spec describes made-up requests.
type Spec struct {
	// Prompt is the length of a prompt, including shared parts.
	Prompt Lengths `json:"prompt" yaml:"prompt"`
	Output Lengths `json:"output" yaml:"output"`

	// SystemTokens begin every prompt. PrefixShare is the part of a prompt that its group shares; there are
	// PrefixGroups groups, and 0 is 1.
	SystemTokens int     `json:"system_tokens,omitempty" yaml:"system_tokens,omitempty"`
	PrefixShare  float64 `json:"prefix_share,omitempty" yaml:"prefix_share,omitempty"`
	PrefixGroups int     `json:"prefix_groups,omitempty" yaml:"prefix_groups,omitempty"`

	// CancelShare of the clients leave before the end.
	CancelShare float64 `json:"cancel_share,omitempty" yaml:"cancel_share,omitempty"`

	Tenants []Tenant `json:"tenants,omitempty" yaml:"tenants,omitempty"`
}

// A Tenant is one kind of client in a mix. Its own distributions replace the Spec's.
type Tenant struct {
	Name        string   `json:"name" yaml:"name"`
	Weight      float64  `json:"weight" yaml:"weight"` // share of the sessions, relative to the others'
	Prompt      Lengths  `json:"prompt,omitzero" yaml:"prompt,omitempty"`
	Output      Lengths  `json:"output,omitzero" yaml:"output,omitempty"`
	PrefixShare *float64 `json:"prefix_share,omitempty" yaml:"prefix_share,omitempty"`
	CancelShare *float64 `json:"cancel_share,omitempty" yaml:"cancel_share,omitempty"`
}

// Validate reports contradictions in a Spec.
func (s *Spec) Validate() error {
	switch {
	case !s.Prompt.Valid():
		return errors.New("workload has no prompt length")
	case !s.Output.Valid():
		return errors.New("workload has no output length")
	case s.SystemTokens < 0 || s.SystemTokens > maxTokens:
		return fmt.Errorf("system prompt of %d tokens", s.SystemTokens)
	case s.PrefixGroups < 0:
		return fmt.Errorf("%d prefix groups", s.PrefixGroups)
	}
	if err := checkShare("prefix share", s.PrefixShare); err != nil {
		return err
	}
	if err := checkShare("cancel share", s.CancelShare); err != nil {
		return err
	}
	total := 0.0
	for _, t := range s.Tenants {
		if t.Name == "" || !(t.Weight > 0) {
			return fmt.Errorf("tenant %q has weight %v: want a name and a positive weight", t.Name, t.Weight)
		}
		for _, p := range []*float64{t.PrefixShare, t.CancelShare} {
			if p != nil {
				if err := checkShare("share of tenant "+t.Name, *p); err != nil {
					return err
				}
			}
		}
		total += t.Weight
	}
	if len(s.Tenants) > 0 && !(total < 1e12) {
		return errors.New("tenants' weights are out of range")
	}
	return nil
}

func checkShare(what string, v float64) error {
	if !(v >= 0 && v <= 1) {
		return fmt.Errorf("%s %v is not between 0 and 1", what, v)
	}
	return nil
}

// A PromptPart is the first Tokens tokens of an endless text. Seed identifies the text.
type PromptPart struct {
	Seed   uint64
	Tokens int
	Own    bool // no other prompt has it
}

// A Turn is one request of a session.
type Turn struct {
	// At is when the turn is due after the session's beginning. A turn never begins before the end of the previous
	// turn.
	At           time.Duration
	Parts        []PromptPart // the whole prompt
	OutputTokens int
	// CancelAfter is how many tokens the client reads before it leaves, at least 1; 0: it stays.
	CancelAfter int
}

// PromptTokens is the length of the turn's parts.
func (t *Turn) PromptTokens() int {
	n := 0
	for _, p := range t.Parts {
		n += p.Tokens
	}
	return n
}

// A Session is one client's requests, one after another.
type Session struct {
	Arrival time.Duration // set for a trace's session
	Turns   []Turn
}

// A Source returns sessions in the order of their arrival. It is not safe for concurrent use.
type Source interface {
	// Next sets s, whose memory it may reuse, to the next session. It returns false at the end.
	Next(s *Session) bool
}

// A Generator draws sessions from a Spec, without end. Session number i depends on the random seed and i alone, so a
// run is the same however it is scheduled.
type Generator struct {
	spec   Spec
	seed   uint64
	n      uint64
	pcg    *rand.PCG
	rand   *rand.Rand
	weight float64
}

// NewGenerator returns the generator of a valid Spec.
func NewGenerator(spec Spec, seed uint64) (*Generator, error) {
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	g := &Generator{spec: spec, seed: seed, pcg: rand.NewPCG(0, 0)}
	g.rand = rand.New(g.pcg)
	for _, t := range spec.Tenants {
		g.weight += t.Weight
	}
	return g, nil
}

// Seeds of shared texts; unique texts have others.
const (
	systemSeed = 1 << 63
	groupSeed  = 1<<63 + 1<<32
)

// Next draws a session.
func (g *Generator) Next(s *Session) bool {
	g.pcg.Seed(g.seed, g.n)
	unique := stat.Mix(g.seed, g.n) &^ (1 << 63)
	g.n++
	prompt, output := g.spec.Prompt, g.spec.Output
	prefixShare, cancelShare := g.spec.PrefixShare, g.spec.CancelShare
	*s = Session{Turns: s.Turns[:0]}
	if t := g.chooseTenant(); t != nil {
		if t.Prompt.Valid() {
			prompt = t.Prompt
		}
		if t.Output.Valid() {
			output = t.Output
		}
		if t.PrefixShare != nil {
			prefixShare = *t.PrefixShare
		}
		if t.CancelShare != nil {
			cancelShare = *t.CancelShare
		}
	}
	group := groupSeed + uint64(g.rand.IntN(max(g.spec.PrefixGroups, 1)))
	t := g.addTurn(s)
	t.OutputTokens = output.Draw(g.rand)
	n := prompt.Draw(g.rand)
	system := min(g.spec.SystemTokens, n)
	common := int(prefixShare * float64(n-system))
	t.addPart(systemSeed, system, false)
	t.addPart(group, common, false)
	t.addPart(unique, n-system-common, true)
	if cancelShare > 0 && g.rand.Float64() < cancelShare {
		t.CancelAfter = 1 + g.rand.IntN(max(t.OutputTokens-1, 1))
	}
	return true
}

// addTurn appends a turn, reusing the memory of an earlier one.
func (g *Generator) addTurn(s *Session) *Turn {
	if len(s.Turns) < cap(s.Turns) {
		s.Turns = s.Turns[:len(s.Turns)+1]
		t := &s.Turns[len(s.Turns)-1]
		*t = Turn{Parts: t.Parts[:0]}
		return t
	}
	s.Turns = append(s.Turns, Turn{})
	return &s.Turns[len(s.Turns)-1]
}

func (t *Turn) addPart(seed uint64, tokens int, own bool) {
	if tokens > 0 {
		t.Parts = append(t.Parts, PromptPart{seed, tokens, own})
	}
}

func (g *Generator) chooseTenant() *Tenant {
	if len(g.spec.Tenants) == 0 {
		return nil
	}
	u := g.rand.Float64() * g.weight
	for i := range g.spec.Tenants {
		if u -= g.spec.Tenants[i].Weight; u < 0 {
			return &g.spec.Tenants[i]
		}
	}
	return &g.spec.Tenants[len(g.spec.Tenants)-1]
}

// A Replay returns a trace's sessions. Requests of one session are its turns. Content blocks become parts that the
// block's id identifies, so that prompts share exactly the trace's prefixes.
type Replay struct {
	trace         *Trace
	speed         float64
	defaultOutput int // output tokens if the trace has none
	next          int
	turns         map[uint64][]int // indexes of a session's requests
	salt          uint64
}

// NewReplay replays a trace at a speed; 1 is its own, 2 twice as fast. Requests with an unknown output length ask for
// defaultOutput tokens.
func NewReplay(t *Trace, speed float64, defaultOutput int) (*Replay, error) {
	if !(speed > 0 && speed <= 1e6) {
		return nil, fmt.Errorf("replay speed %v: want a positive number", speed)
	}
	r := &Replay{trace: t, speed: speed, defaultOutput: max(defaultOutput, 1), turns: map[uint64][]int{}, salt: 0x5eed}
	for i, q := range t.Requests {
		if q.Session != 0 {
			r.turns[q.Session] = append(r.turns[q.Session], i)
		}
	}
	return r, nil
}

// Next returns the next session by the arrival of its first request.
func (r *Replay) Next(s *Session) bool {
	for r.next < len(r.trace.Requests) {
		i := r.next
		r.next++
		q := &r.trace.Requests[i]
		if q.Session == 0 {
			r.fillSession(s, i)
			return true
		}
		if turns := r.turns[q.Session]; turns[0] == i {
			r.fillSession(s, turns...)
			return true
		}
	}
	return false
}

func (r *Replay) fillSession(s *Session, indexes ...int) {
	first := &r.trace.Requests[indexes[0]]
	*s = Session{Arrival: r.scaleTime(first.Arrival)}
	for _, i := range indexes {
		q := &r.trace.Requests[i]
		t := Turn{At: r.scaleTime(q.Arrival - first.Arrival), OutputTokens: q.OutputTokens}
		if t.OutputTokens == 0 {
			t.OutputTokens = r.defaultOutput
		}
		left := q.PromptTokens
		for _, b := range q.Blocks {
			n := min(left, r.trace.BlockTokens)
			t.addPart(stat.Mix(r.salt, b), n, false)
			left -= n
		}
		tail, own := stat.Mix(r.salt+1, uint64(i)), true
		if q.Session != 0 && len(q.Blocks) == 0 {
			own = false
			tail = stat.Mix(r.salt+2, q.Session) // later prompts repeat and extend the earlier ones
		}
		t.addPart(tail, left, own)
		s.Turns = append(s.Turns, t)
	}
}

func (r *Replay) scaleTime(d time.Duration) time.Duration {
	return time.Duration(float64(d) / r.speed)
}
