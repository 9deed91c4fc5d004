package pair_test

import (
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/base/polltest"
	"github.com/sixty-dev/sixty/internal/monitor/pair"
)

// words are a state: those that were heard.
type words struct {
	mu    sync.Mutex
	heard []string
}

func (w *words) MarshalBinary() ([]byte, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return []byte(strings.Join(w.heard, " ")), nil
}

func (w *words) Merge(b []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for word := range strings.FieldsSeq(string(b)) {
		if !slices.Contains(w.heard, word) {
			w.heard = append(w.heard, word)
		}
	}
	return nil
}

func (w *words) has(word string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Contains(w.heard, word)
}

func address(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	defer l.Close()
	return l.Addr().String()
}

// TestOneLeads: of two monitors, and the other one when that ends; what is shared is at both, also at one
// that comes later.
func TestOneLeads(t *testing.T) {
	at := []string{address(t), address(t)}
	open := func(i int, said *words) (*pair.Pair, func([]byte)) {
		p, err := pair.Open(pair.Config{Listen: at[i], Peers: at, Log: slog.New(slog.DiscardHandler)})
		must.Succeed(t, err)
		return p, p.Share("words", said)
	}
	first, second := &words{heard: []string{"before"}}, &words{}
	a, tell := open(0, first)
	a.Join()
	until := func(what string, is func() bool) {
		t.Helper()
		if !polltest.True(is) {
			t.Fatal("never: " + what)
		}
	}
	until("one alone leads", a.Leads)
	b, _ := open(1, second)
	b.Join()
	defer b.Close()
	until("they see one another", func() bool { return a.Others() == 1 && b.Others() == 1 })
	until("the other hears what was before", func() bool { return second.has("before") })
	tell([]byte("news"))
	until("the other hears news", func() bool { return second.has("news") })
	if !a.Leads() || b.Leads() {
		t.Errorf("the first leads: %t, the second: %t", a.Leads(), b.Leads())
	}
	must.Succeed(t, a.Close())
	until("the other leads", b.Leads)
}

func TestAMonitorAlone(t *testing.T) {
	p, err := pair.Open(pair.Config{})
	if err != nil || p != nil {
		t.Fatalf("%v, %v", p, err)
	}
	p.Share("words", &words{})([]byte("x"))
	p.Join()
	if !p.Leads() || p.Others() != 0 || p.Close() != nil {
		t.Error("one alone does not lead")
	}
	for _, cfg := range []pair.Config{{Peers: []string{"x:1"}}, {Listen: "x"},
		{Listen: "127.0.0.1:0", TLSFile: "none"}} {
		cfg.Log = slog.New(slog.DiscardHandler)
		if _, err := pair.Open(cfg); err == nil || !strings.Contains(err.Error(), "--cluster-") {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
}
