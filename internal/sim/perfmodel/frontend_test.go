package perfmodel_test

import (
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/sim"
	"github.com/sixty-dev/sixty/internal/sim/perfmodel"
	measured "github.com/sixty-dev/sixty/internal/sim/workload"
)

var trueFrontend = sim.Frontend{PerRequest: 6e-3}

// watched holds the scrapes, one a second, of an engine of known cost behind an API server of known time.
type watched struct {
	*sim.Engine
	cfg     sim.Config
	scrapes []measured.Interval
	now     measured.Interval // since the last scrape
	at, end time.Duration
	tokens  int64
}

// until scrapes up to a time in which nothing changes.
func (w *watched) until(t time.Duration) {
	for t > w.at {
		to := min(t, w.end)
		st := w.Stats()
		d := (to - w.at).Seconds()
		w.now.Seconds += d
		w.now.Running += float64(st.Running) * d
		w.now.Waiting += float64(st.Waiting) * d
		w.now.KVUsage += float64(st.UsedBlocks*w.cfg.BlockSize) / float64(w.cfg.Tokens()) * d
		if w.at = to; w.at == w.end {
			s := w.now
			s.Running, s.Waiting, s.KVUsage = s.Running/s.Seconds, s.Waiting/s.Seconds, s.KVUsage/s.Seconds
			s.Generated = float64(st.GenerationTokens - w.tokens)
			w.scrapes = append(w.scrapes, s)
			w.now, w.tokens, w.end = measured.Interval{}, st.GenerationTokens, w.end+time.Second
		}
	}
}

// watch drives the engine as EngineCore does: it takes requests between steps, and the wait for the end of a step
// counts in no metric but the time to first token.
func watch(t *testing.T, cfg sim.Config, requests []sim.Request) []measured.Interval {
	t.Helper()
	e, err := sim.New(cfg, trueCost)
	must.Succeed(t, err)
	w := &watched{Engine: e, cfg: cfg, end: time.Second}
	var taken, last []time.Duration
	now := time.Duration(0)
	arrival := func(i int) time.Duration {
		return requests[i].Arrival + trueFrontend.Delay(requests[i].PromptTokens)
	}
	for next := 0; next < len(requests) || e.HasWork(); {
		if !e.HasWork() {
			now = max(now, arrival(next))
		}
		w.until(now)
		for ; next < len(requests) && arrival(next) <= now; next++ {
			r := requests[next]
			r.Arrival = now
			if _, err := e.Add(r); err != nil {
				t.Fatal(err)
			}
			taken, last = append(taken, now), append(last, 0)
		}
		due, wait := e.Schedule(now)
		if !wait {
			continue
		}
		w.until(due)
		now = due
		w.now.Steps++
		for _, out := range e.Complete(now) {
			if out.First {
				w.now.FirstTokens++
				w.now.Computed += float64(requests[out.ID].PromptTokens)
				w.now.TTFTSum += (now - requests[out.ID].Arrival).Seconds()
			} else {
				w.now.ITLCount++
				w.now.ITLSum += (now - last[out.ID]).Seconds()
			}
			last[out.ID] = now
			if r := out.Result; r != nil {
				w.now.QueueCount++
				w.now.QueueSum += (r.Scheduled - taken[out.ID]).Seconds()
				w.now.PrefillCount++
				w.now.PrefillSum += (r.FirstToken - r.Scheduled).Seconds()
			}
		}
	}
	return w.scrapes
}

// The metrics of a server that is sometimes idle suffice to fit its step times and its API server's time.
func TestTheFrontendIsFoundInMetrics(t *testing.T) {
	cfg := config(t)
	cfg.AsyncScheduling = false
	requests := workload(1, 2, 600)
	prior := perfmodel.Rough(trueCost)
	prior.Base, prior.PerKV, prior.PerToken = 15e-3, 70e-9, 80e-6
	f, err := perfmodel.FitScrapes(cfg, watch(t, cfg, requests), &prior, nil)
	must.Succeed(t, err)
	p, err := f.Predict(perfmodel.Deployment{Config: cfg}, requests, perfmodel.PredictionDraws, sim.Options{})
	must.Succeed(t, err)
	truth, err := sim.Run(cfg, trueCost, requests, sim.Options{Frontend: trueFrontend})
	must.Succeed(t, err)
	want := truth.Summary()
	countWithin(t, "mean ITL", p.Summary.ITL.Mean.Seconds(), want.ITL.Mean.Seconds(), 0.03)
	countWithin(t, "mean TTFT", p.TTFT.Mean.Value, want.TTFT.Mean.Seconds(), 0.10)
	if got := f.Frontend.PerRequest; got < 3e-3 || got > 9e-3 || f.FrontendLow > got || f.FrontendHigh < got {
		t.Errorf("the API server takes %.4g s (%.4g to %.4g), want %.4g", got, f.FrontendLow, f.FrontendHigh,
			trueFrontend.PerRequest)
	}
}

// In clients' measurements the API server's time is in the time to first token only.
func TestTheFrontendIsFoundInRequests(t *testing.T) {
	cfg := config(t)
	requests := workload(1, 4, 400)
	res, err := sim.Run(cfg, trueCost, requests, sim.Options{Frontend: trueFrontend})
	must.Succeed(t, err)
	ms := asSeen(requests, res)
	f, err := perfmodel.FitRequests(perfmodel.Deployment{Config: cfg}, ms, nil, nil)
	must.Succeed(t, err)
	countWithin(t, "the API server's time", f.Frontend.PerRequest, trueFrontend.PerRequest, 0.15)
	for i, r := range res.Requests {
		ms[i].Scheduled = r.Scheduled
	}
	if f, err = perfmodel.FitRequests(perfmodel.Deployment{Config: cfg}, ms, nil, nil); err != nil ||
		f.Frontend.PerRequest != 0 {
		t.Errorf("times of scheduling do not hold the API server's time: %v, %+v", err, f.Frontend)
	}
}
