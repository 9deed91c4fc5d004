package serve

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/metrics/collect"
	"github.com/sixty-dev/sixty/internal/metrics/recording"
	"github.com/sixty-dev/sixty/internal/monitor/access"
	"github.com/sixty-dev/sixty/internal/monitor/incident/keeper"
	"github.com/sixty-dev/sixty/internal/monitor/view"
	"github.com/sixty-dev/sixty/internal/monitor/web"
)

// incidentsPath is the path of the incidents' API.
const incidentsPath = "/api/v1/incidents"

// Numbers of incidents in a list.
const usualLimit, maxLimit = 100, 1000

// incidentAnswers returns the handler of incidentsPath and the paths below; see docs/api.md. complete adds slow
// requests.
func incidentAnswers(k *keeper.Keeper, silencer silenceFunc,
	complete func(context.Context, *view.Incident)) http.Handler {
	mux := http.NewServeMux()
	one := func(method, path string, h http.HandlerFunc) {
		mux.HandleFunc(method+" "+incidentsPath+"/{id}"+path, func(w http.ResponseWriter, r *http.Request) {
			if err := k.Check(r.PathValue("id"), access.Of(r.Context())); err != nil {
				failIncident(w, err)
				return
			}
			h(w, r)
		})
	}
	mux.HandleFunc("GET "+incidentsPath, func(w http.ResponseWriter, r *http.Request) { listIncidents(w, r, k) })
	one("GET", "", func(w http.ResponseWriter, r *http.Request) {
		i, err := k.Get(r.PathValue("id"), access.Of(r.Context()))
		complete(r.Context(), &i)
		answerIncident(w, i, err)
	})
	one("GET", "/recording", func(w http.ResponseWriter, r *http.Request) { sendRecording(w, r, k) })
	one("GET", "/postmortem", func(w http.ResponseWriter, r *http.Request) {
		text, err := k.PostMortem(r.PathValue("id"), access.Of(r.Context()))
		if err != nil {
			failIncident(w, err)
			return
		}
		w.Header().Set("Content-Type", "text/markdown; charset=utf-8")
		_, _ = w.Write(text)
	})
	one("POST", "/acknowledge", func(w http.ResponseWriter, r *http.Request) {
		var a struct{ By, Text string }
		if web.Body(w, r, &a) {
			i, err := k.Acknowledge(r.PathValue("id"), byWhom(r, a.By), time.Now())
			answerIncident(w, i, err)
		}
	})
	one("POST", "/notes", func(w http.ResponseWriter, r *http.Request) {
		var a struct{ By, Text string }
		if web.Body(w, r, &a) {
			i, err := k.AddNote(r.PathValue("id"), byWhom(r, a.By), a.Text, time.Now())
			answerIncident(w, i, err)
		}
	})
	one("POST", "/silence", func(w http.ResponseWriter, r *http.Request) { silence(w, r, k, silencer) })
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		web.Fail(w, http.StatusNotFound, fmt.Errorf("there is nothing at %s %s", r.Method, r.URL.Path))
	})
	return mux
}

// byWhom returns the author of an action: the authenticated person or, without one, the name in the body.
func byWhom(r *http.Request, name string) string {
	if p := access.Of(r.Context()); p.IsPerson() {
		return p.Name
	}
	return name
}

const (
	longestSilence = 7 * 24 // hours
	silenceTime    = 10 * time.Second
)

// silenceFunc is the type of collect.Collector's Silence.
type silenceFunc func(ctx context.Context, matching map[string][]string, until time.Time, by, comment string) error

// silence silences the alerts of an incident in Alertmanager, and notes it.
func silence(w http.ResponseWriter, r *http.Request, k *keeper.Keeper, silencer silenceFunc) {
	var asked struct {
		By    string
		Hours float64
	}
	if !web.Body(w, r, &asked) {
		return
	}
	asked.By = byWhom(r, asked.By)
	i, err := k.Get(r.PathValue("id"), access.Of(r.Context()))
	if err != nil {
		failIncident(w, err)
		return
	}
	if !(asked.Hours > 0 && asked.Hours <= longestSilence) || strings.TrimSpace(asked.By) == "" {
		web.Fail(w, http.StatusBadRequest, fmt.Errorf("by must be a name, and hours a number up to %d", longestSilence))
		return
	}
	ids := slices.Sorted(maps.Keys(i.Since))
	if len(ids) == 0 {
		ids = []string{i.Pathology}
	}
	matching := map[string][]string{"pathology": ids, "model_name": {i.Model}, "namespace": {i.Namespace},
		"cluster": {i.Cluster}}
	maps.DeleteFunc(matching, func(_ string, values []string) bool { return values[0] == "" })
	until := time.Now().Add(time.Duration(asked.Hours * float64(time.Hour)))
	ctx, cancel := context.WithTimeout(r.Context(), silenceTime)
	defer cancel()
	switch err := silencer(ctx, matching, until, asked.By, "silenced by sixty for incident "+i.ID); {
	case errors.Is(err, collect.ErrNoAlertmanager):
		web.Fail(w, http.StatusConflict, hint.With(err, "configure one under alerting, and wait for its first alert"))
	case err != nil:
		web.Fail(w, http.StatusBadGateway, err)
	default:
		noted, err := k.AddNote(i.ID, asked.By,
			"Silenced in Alertmanager until "+until.UTC().Format("2006-01-02 15:04 UTC"), time.Now())
		answerIncident(w, noted, err)
	}
}

func listIncidents(w http.ResponseWriter, r *http.Request, k *keeper.Keeper) {
	q := keeper.Query{State: r.FormValue("state"), Model: r.FormValue("model"), Limit: usualLimit,
		By: access.Of(r.Context())}
	if q.State != "" && q.State != "open" && q.State != "closed" {
		web.Fail(w, http.StatusBadRequest, fmt.Errorf("state %q is not open or closed", q.State))
		return
	}
	if text := r.FormValue("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxLimit {
			web.Fail(w, http.StatusBadRequest, fmt.Errorf("limit %q is not a number from 1 to %d", text, maxLimit))
			return
		}
		q.Limit = n
	}
	web.Answer(w, k.List(q))
}

func sendRecording(w http.ResponseWriter, r *http.Request, k *keeper.Keeper) {
	id := r.PathValue("id")
	path, part, err := k.Recording(id, access.Of(r.Context()))
	if err != nil {
		failIncident(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/zstd")
	// ids are letters, digits and hyphens
	w.Header().Set("Content-Disposition", `attachment; filename="`+id+`.tar.zst"`)
	if part == nil {
		http.ServeFile(w, r, path)
	} else if err := recording.CopyPart(w, path, part); err != nil {
		panic(http.ErrAbortHandler) // the client must see that the answer is incomplete
	}
}

func answerIncident(w http.ResponseWriter, i any, err error) {
	if err != nil {
		failIncident(w, err)
		return
	}
	web.Answer(w, i)
}

func failIncident(w http.ResponseWriter, err error) {
	status := http.StatusServiceUnavailable
	switch {
	case errors.Is(err, keeper.ErrUnknown), errors.Is(err, os.ErrNotExist):
		status = http.StatusNotFound
	case errors.Is(err, keeper.ErrInvalid):
		status = http.StatusBadRequest
	}
	web.Fail(w, status, err)
}
