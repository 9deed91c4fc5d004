package receivers_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	amconfig "github.com/prometheus/alertmanager/config"

	"github.com/sixty-dev/sixty/internal/base/memnet"
	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/base/outputtest"
	"github.com/sixty-dev/sixty/internal/metrics/collect"
	"github.com/sixty-dev/sixty/internal/monitor"
	"github.com/sixty-dev/sixty/internal/monitor/receivers"
)

// An illness is a way in which a receiver does not take a notification.
type illness string

const (
	well       illness = ""
	hangsFirst illness = "hangs before it reads"
	hangsIn    illness = "hangs within the body"
	hangsAfter illness = "hangs after the body" // it heard, and nobody knows
	slow       illness = "answers after 8 s"    // which is no failure
	fails      illness = "answers 503"
	resets     illness = "resets the connection"
	blackHole  illness = "black hole"
	speaksTLS  illness = "answers with TLS"
	noName     illness = "its name is gone"
)

// A patient is a receiver with an illness.
type patient struct {
	mu       sync.Mutex
	ill      illness
	over     chan struct{} // closed when that illness is over
	heard    []string      // "firing" and "resolved"
	attempts []time.Time
}

func (p *patient) becomes(ill illness) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over != nil {
		close(p.over)
	}
	p.ill, p.attempts, p.over = ill, nil, make(chan struct{})
}

// hang lasts as long as the illness: of a request whose body is not read, nothing tells the handler that
// the client left. Then the connection breaks.
func (p *patient) hang() {
	p.mu.Lock()
	over := p.over
	p.mu.Unlock()
	<-over
	panic(http.ErrAbortHandler)
}

func (p *patient) state() (illness, []string, []time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ill, slices.Clone(p.heard), slices.Clone(p.attempts)
}

func (p *patient) dial(ctx context.Context, memory *memnet.Network, network, address string) (net.Conn, error) {
	p.mu.Lock()
	ill, over := p.ill, p.over
	p.attempts = append(p.attempts, time.Now())
	p.mu.Unlock()
	switch ill {
	case blackHole:
		select { // net/http lets a connection be made though nobody wants it any more
		case <-ctx.Done():
		case <-over:
		}
		return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ETIMEDOUT}
	case noName:
		return nil, &net.DNSError{Err: "no such host", Name: "hook", IsNotFound: true}
	case speaksTLS:
		here, there := net.Pipe()
		go func() {
			defer there.Close()
			_, _ = there.Read(make([]byte, 1<<10))
			_, _ = there.Write([]byte("\x15\x03\x01\x00\x02\x02\x46"))
		}()
		return here, nil
	}
	return memory.DialContext(ctx, network, address)
}

// ServeHTTP implements http.Handler.
func (p *patient) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ill, _, _ := p.state()
	switch ill {
	case hangsFirst:
		p.hang()
	case hangsIn:
		_, _ = r.Body.Read(make([]byte, 16))
		p.hang()
	}
	var doc struct {
		Status string `json:"status"`
		Alerts []struct {
			Labels map[string]string `json:"labels"`
		} `json:"alerts"`
	}
	body, _ := io.ReadAll(r.Body)
	_ = json.Unmarshal(body, &doc)
	hear := func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.heard = append(p.heard, doc.Status)
	}
	switch ill {
	case hangsAfter:
		hear()
		p.hang()
	case fails:
		w.WriteHeader(http.StatusServiceUnavailable)
	case resets:
		panic(http.ErrAbortHandler)
	case slow:
		<-time.After(8 * time.Second)
		hear()
	case well:
		hear()
	}
}

// A ward is a notifier with one receiver that falls ill and one that stays well.
type ward struct {
	t             *testing.T
	network       memnet.Network
	patient, sane patient
	file          string
	log           *outputtest.Buffer
	teller        *receivers.Notifier
	began         time.Time
}

func newWard(t *testing.T) *ward {
	w := &ward{t: t, file: filepath.Join(t.TempDir(), "receivers.json"), log: &outputtest.Buffer{}}
	w.network.Serve(t, "hook:80", &w.patient)
	w.network.Serve(t, "sane:80", &w.sane)
	w.open()
	t.Cleanup(func() { w.teller.Close() })
	return w
}

func (w *ward) open() {
	w.t.Helper()
	cfg, err := monitor.ParseConfig([]byte("sixty:\n  receivers:\n  - {name: ill, webhook_configs: [{url: 'http://hook/'}]}\n  - {name: sane, webhook_configs: [{url: 'http://sane/'}]}\n"),
		0, slog.New(slog.DiscardHandler))
	must.Succeed(w.t, err)
	w.teller, err = receivers.New(w.file, &url.URL{Scheme: "http", Host: "sixty"}, monitor.AlertSettings{}.Rank,
		slog.New(slog.NewTextHandler(w.log, nil)), nil)
	must.Succeed(w.t, err)
	w.teller.Dial(func(ctx context.Context, network, address string) (net.Conn, error) {
		if address == "hook:80" {
			return w.patient.dial(ctx, &w.network, network, address)
		}
		return w.network.DialContext(ctx, network, address)
	})
	must.Succeed(w.t, w.teller.SetReceivers([]amconfig.Receiver(cfg.Sixty.Receivers), ""))
}

// kill ends the notifier as kill -9 does, as far as its file is concerned, and starts another one.
func (w *ward) kill() {
	w.t.Helper()
	kept := must.ReadFile(w.t, w.file)
	w.teller.Close()
	must.Succeed(w.t, os.WriteFile(w.file, kept, 0o600))
	w.open()
}

// see sends the alert again and again for a while, as the monitor does.
func (w *ward) see(firing bool, span time.Duration) {
	now := time.Now()
	if firing && (w.began.IsZero() || w.began.Before(now.Add(-time.Hour))) {
		w.began = now
	}
	ended := now
	for ; time.Since(now) < span; <-time.After(time.Minute) {
		ends := ended
		if firing {
			ends = time.Now().Add(4 * time.Minute)
		}
		w.teller.Notify(collect.Alert{Labels: map[string]string{"alertname": "VLLMTargetDown", "severity": "page"},
			Began: w.began, Ends: ends, Path: "/"})
	}
}

// TestIllReceivers: whatever a receiver does when it is told of a beginning, of an end or of a
// recurrence, it is tried again, hears of it once it is well, and holds up nobody; a kill -9 meanwhile
// changes nothing of that. Only where it heard and never answered it may hear again.
func TestIllReceivers(t *testing.T) {
	for _, ill := range []illness{hangsFirst, hangsIn, hangsAfter, slow, fails, resets, blackHole, speaksTLS, noName} {
		for _, killed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s killed=%v", ill, killed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { testIllness(t, ill, killed) })
			})
		}
	}
}

func testIllness(t *testing.T, ill illness, killed bool) {
	w := newWard(t)
	var want []string
	for i, firing := range []bool{true, false, true, false} {
		status := map[bool]string{true: "firing", false: "resolved"}[firing]
		want = append(want, status)
		if firing {
			w.began = time.Now()
		}
		w.patient.becomes(ill)
		w.see(firing, 3*time.Minute)
		if killed {
			w.kill()
		}
		w.see(firing, 3*time.Minute)
		_, _, attempts := w.patient.state()
		if least := 4; ill != slow && len(attempts) < least {
			t.Errorf("%d: it was tried %d times in 6 minutes", i, len(attempts))
		}
		for k := 1; k < len(attempts); k++ {
			if gap := attempts[k].Sub(attempts[k-1]); ill != slow &&
				gap > 105*time.Second { // an attempt, and the longest wait
				t.Errorf("%d: %s between two attempts", i, gap)
			}
		}
		if _, heard, _ := w.sane.state(); !slices.Equal(heard, want) {
			t.Fatalf("%d: the one that is well heard %q, want %q; log: %s", i, heard, want, w.log)
		}
		failures := w.teller.Failures()
		if ill != slow && (len(failures) != 1 || failures[0].Receiver != "ill/webhook/0" ||
			time.Since(failures[0].Since) < 2*time.Minute) {
			t.Errorf("%d: failures %+v", i, failures)
		}
		w.patient.becomes(well)
		w.see(firing, 2*time.Minute)
		if _, heard, _ := w.patient.state(); ill != hangsAfter && !slices.Equal(heard, want) ||
			!slices.Equal(slices.Compact(heard), want) {
			t.Fatalf("%d: it heard %q, want %q; log: %s", i, heard, want, w.log)
		}
		if failures := w.teller.Failures(); len(failures) > 0 {
			t.Errorf("%d: it is well, and said to fail: %+v", i, failures)
		}
	}
}
