package access

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// An Entry is an action, or a refused one.
type Entry struct {
	At      time.Time `json:"at"`
	User    string    `json:"user"`
	Way     string    `json:"way"` // how the user was authenticated
	Role    string    `json:"role"`
	View    string    `json:"view,omitempty"` // selects the servers that the user sees; "" for all
	Address string    `json:"address"`
	Method  string    `json:"method"`
	Path    string    `json:"path"`
	Status  int       `json:"status"`
}

// A Log appends entries to a file, one JSON object a line. The nil Log drops them. The file is opened for each line, so
// that it may be rotated.
type Log struct {
	Path string
	mu   sync.Mutex
}

// Write appends the entry of a request.
func (l *Log) Write(p *Principal, r *http.Request, status int) (err error) {
	if l == nil || l.Path == "" {
		return nil
	}
	d := Entry{
		At: time.Now().UTC(), User: p.Name, Way: p.Way, Role: p.Role.String(),
		Address: r.RemoteAddr, Method: r.Method, Path: r.URL.Path, Status: status,
	}
	if p.Restricted() {
		d.View = indicator.Selector("", p.Match...)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	f, err := os.OpenFile(l.Path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(json.NewEncoder(f).Encode(d), f.Close())
}
