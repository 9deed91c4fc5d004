package serve

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/sixty-dev/sixty/internal/monitor/incident/keeper"
	"github.com/sixty-dev/sixty/internal/monitor/web"
)

// incidentsPath is where incidents are.
const incidentsPath = "/api/v1/incidents"

// How many incidents are listed.
const usualLimit, maxLimit = 100, 1000

// incidentAnswers answers what docs/api.md says below incidentsPath.
func incidentAnswers(k *keeper.Keeper) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+incidentsPath, func(w http.ResponseWriter, r *http.Request) { listIncidents(w, r, k) })
	mux.HandleFunc("GET "+incidentsPath+"/{id}", func(w http.ResponseWriter, r *http.Request) {
		i, err := k.Get(r.PathValue("id"))
		answerIncident(w, i, err)
	})
	mux.HandleFunc("GET "+incidentsPath+"/{id}/recording", func(w http.ResponseWriter, r *http.Request) { sendRecording(w, r, k) })
	mux.HandleFunc("GET "+incidentsPath+"/{id}/postmortem", func(w http.ResponseWriter, r *http.Request) {
		text, err := k.PostMortem(r.PathValue("id"))
		if err != nil {
			failIncident(w, err)
			return
		}
		w.Header().Set("Content-Type", "text/markdown; charset=utf-8")
		_, _ = w.Write(text)
	})
	var said struct{ By, Text string }
	mux.HandleFunc("POST "+incidentsPath+"/{id}/acknowledge", func(w http.ResponseWriter, r *http.Request) {
		if said := said; web.Body(w, r, &said) {
			i, err := k.Acknowledge(r.PathValue("id"), said.By, time.Now())
			answerIncident(w, i, err)
		}
	})
	mux.HandleFunc("POST "+incidentsPath+"/{id}/notes", func(w http.ResponseWriter, r *http.Request) {
		if said := said; web.Body(w, r, &said) {
			i, err := k.AddNote(r.PathValue("id"), said.By, said.Text, time.Now())
			answerIncident(w, i, err)
		}
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		web.Fail(w, http.StatusNotFound, fmt.Errorf("there is nothing at %s %s", r.Method, r.URL.Path))
	})
	return mux
}

func listIncidents(w http.ResponseWriter, r *http.Request, k *keeper.Keeper) {
	q := keeper.Query{State: r.FormValue("state"), Model: r.FormValue("model"), Limit: usualLimit}
	if q.State != "" && q.State != "open" && q.State != "closed" {
		web.Fail(w, http.StatusBadRequest, fmt.Errorf("state %q is neither open nor closed", q.State))
		return
	}
	if text := r.FormValue("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxLimit {
			web.Fail(w, http.StatusBadRequest, fmt.Errorf("limit %q is no number from 1 to %d", text, maxLimit))
			return
		}
		q.Limit = n
	}
	web.Answer(w, k.List(q))
}

func sendRecording(w http.ResponseWriter, r *http.Request, k *keeper.Keeper) {
	id := r.PathValue("id")
	path, err := k.Recording(id)
	if err != nil {
		failIncident(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/zstd")
	w.Header().Set("Content-Disposition", `attachment; filename="`+id+`.tar.zst"`) // ids are letters, digits and hyphens
	http.ServeFile(w, r, path)
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
