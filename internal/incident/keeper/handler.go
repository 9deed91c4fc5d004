package keeper

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/hint"
	"github.com/sixty-dev/sixty/internal/monitor/view"
)

// Path is where Handler belongs.
const Path = "/api/v1/incidents"

// Bounds of requests.
const (
	usualLimit, maxLimit = 100, 1000
	maxBody              = 64 << 10
)

// Handler answers what docs/api.md says below Path, which requests carry. What writes takes
// JSON alone, from the page's own origin or from a program that sends no Origin.
func (k *Keeper) Handler() http.Handler {
	own := http.NewCrossOriginProtection()
	own.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fail(w, http.StatusForbidden, hint.With(errors.New("this comes from another page"), "write from the monitor's own page, or from a program that sends no Origin"))
	}))
	mux := http.NewServeMux()
	get := func(path string, h func(http.ResponseWriter, *http.Request)) {
		mux.HandleFunc("GET "+Path+path, h)
		mux.HandleFunc(Path+path, only(http.MethodGet))
	}
	post := func(path string, h func(http.ResponseWriter, *http.Request)) {
		mux.Handle("POST "+Path+path, own.Handler(http.HandlerFunc(h)))
		mux.HandleFunc(Path+path, only(http.MethodPost))
	}
	get("", k.list)
	get("/{id}", func(w http.ResponseWriter, r *http.Request) { answer(w, r.PathValue("id"), k.Get) })
	get("/{id}/recording", k.recording)
	get("/{id}/postmortem", k.postmortem)
	post("/{id}/acknowledge", func(w http.ResponseWriter, r *http.Request) {
		write(w, r, func(by, _ string) (view.Summary, error) { return k.Acknowledge(r.PathValue("id"), by, time.Now()) })
	})
	post("/{id}/notes", func(w http.ResponseWriter, r *http.Request) {
		write(w, r, func(by, text string) (view.Summary, error) { return k.AddNote(r.PathValue("id"), by, text, time.Now()) })
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fail(w, http.StatusNotFound, fmt.Errorf("there is nothing at %q", r.URL.Path))
	})
	return mux
}

// only refuses other methods.
func only(method string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", method)
		fail(w, http.StatusMethodNotAllowed, fmt.Errorf("%s is not for this path: use %s", r.Method, method))
	}
}

func (k *Keeper) list(w http.ResponseWriter, r *http.Request) {
	q := Query{State: r.FormValue("state"), Model: r.FormValue("model"), Limit: usualLimit}
	if q.State != "" && q.State != "open" && q.State != "closed" {
		fail(w, http.StatusBadRequest, fmt.Errorf("state %q is neither open nor closed", q.State))
		return
	}
	if text := r.FormValue("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxLimit {
			fail(w, http.StatusBadRequest, fmt.Errorf("limit %q is no number from 1 to %d", text, maxLimit))
			return
		}
		q.Limit = n
	}
	send(w, http.StatusOK, k.List(q))
}

func (k *Keeper) recording(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	path, err := k.Recording(id)
	if err != nil {
		fail(w, status(err), err)
		return
	}
	f, err := os.Open(path)
	if err != nil {
		fail(w, http.StatusNotFound, fmt.Errorf("the recording of %s cannot be read", id))
		return
	}
	defer f.Close()
	w.Header().Set("Content-Type", "application/zstd")
	w.Header().Set("Content-Disposition", `attachment; filename="`+id+`.tar.zst"`) // ids are letters, digits and hyphens
	http.ServeContent(w, r, "", time.Time{}, f)
}

func (k *Keeper) postmortem(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	text, err := k.PostMortem(id)
	if err != nil {
		fail(w, status(err), err)
		return
	}
	w.Header().Set("Content-Type", "text/markdown; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Content-Disposition", `inline; filename="`+id+`.md"`)
	_, _ = w.Write(text)
}

// write reads what somebody wrote and answers with the incident's summary.
func write(w http.ResponseWriter, r *http.Request, do func(by, text string) (view.Summary, error)) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		fail(w, http.StatusUnsupportedMediaType, hint.With(errors.New("the body is not JSON"), "send Content-Type: application/json"))
		return
	}
	var said struct{ By, Text string }
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	d.DisallowUnknownFields()
	err := d.Decode(&said)
	if err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("there is more than one object")
		}
	}
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		fail(w, http.StatusRequestEntityTooLarge, fmt.Errorf("the body is larger than %d bytes", maxBody))
		return
	case err != nil:
		fail(w, http.StatusBadRequest, hint.With(fmt.Errorf("the body cannot be read: %w", err), `send {"by": "…"}, and "text" with a note`))
		return
	}
	s, err := do(said.By, said.Text)
	if err != nil {
		fail(w, status(err), err)
		return
	}
	send(w, http.StatusOK, s)
}

func answer[T any](w http.ResponseWriter, id string, get func(string) (T, error)) {
	v, err := get(id)
	if err != nil {
		fail(w, status(err), err)
		return
	}
	send(w, http.StatusOK, v)
}

// status is that of an error.
func status(err error) int {
	switch {
	case errors.Is(err, ErrUnknown), errors.Is(err, os.ErrNotExist):
		return http.StatusNotFound
	case errors.Is(err, ErrInvalid):
		return http.StatusBadRequest
	}
	return http.StatusServiceUnavailable
}

func send(w http.ResponseWriter, code int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		code, b = http.StatusInternalServerError, []byte(`{"error":"the answer cannot be written"}`)
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_, _ = w.Write(append(b, '\n'))
}

func fail(w http.ResponseWriter, code int, err error) {
	send(w, code, view.Error{Error: strings.TrimSpace(err.Error()), Hint: hint.Of(err)})
}
