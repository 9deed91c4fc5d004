package scrape

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// factsBounds are tight, because facts are optional and must not delay a diagnosis.
var factsBounds = bounds{timeout: 2 * time.Second, size: 1 << 20}

const maxModels = 1000

// Facts holds an inference server's reports beside its metrics. Fields without an answer are zero.
type Facts struct {
	// Health is the HTTP status of /health: vLLM answers 503 when its engine is
	// dead, but 200 while it hangs (vllm/entrypoints/openai/api_server.py). It is 0
	// when there was no answer, and HealthErr then says why.
	Health    int
	HealthErr error

	// Version is the server's version from /version, such as "0.23.0".
	Version string

	// Models are the entries of /v1/models, LoRA adapters included.
	Models []Model
}

// Model is an entry of /v1/models.
type Model struct {
	ID          string // the served name, the label model_name in the metrics
	MaxModelLen int    // longest prompt and output together in tokens, 0 when unsaid
}

// Facts queries a server's endpoints beside /metrics, concurrently. Each of them is optional. The address may be the
// metrics page's.
func (c *Client) Facts(ctx context.Context, target string) Facts {
	var f Facts
	u, err := serverURL(target)
	if err != nil {
		f.HealthErr = err
		return f
	}
	var wg sync.WaitGroup
	wg.Go(func() { f.Health, f.HealthErr = c.fetchHealth(ctx, u) })
	wg.Go(func() {
		var v struct {
			Version string `json:"version"`
		}
		if c.getJSON(ctx, u.JoinPath("version"), &v) == nil {
			f.Version = v.Version
		}
	})
	wg.Go(func() { f.Models = c.Models(ctx, target) })
	wg.Wait()
	return f
}

func (c *Client) fetchHealth(ctx context.Context, base *url.URL) (int, error) {
	var b Body
	err := c.fetchPage(ctx, base.JoinPath("health"), factsBounds, &b)
	return b.Status, err
}

// serverURL returns the base URL of the server behind a target's address.
func serverURL(target string) (*url.URL, error) {
	u, err := parseURL(target)
	if err == nil {
		u.Path, u.RawPath, u.RawQuery = strings.TrimSuffix(u.Path, defaultPath), "", ""
	}
	return u, err
}

// Models returns the models that a server lists, none if it has no list.
func (c *Client) Models(ctx context.Context, target string) []Model {
	base, err := serverURL(target)
	if err != nil {
		return nil
	}
	var list struct {
		Data []struct {
			ID          string `json:"id"`
			MaxModelLen int    `json:"max_model_len"`
		} `json:"data"`
	}
	if c.getJSON(ctx, base.JoinPath("v1", "models"), &list) != nil {
		return nil
	}
	var models []Model
	for _, m := range list.Data[:min(len(list.Data), maxModels)] {
		models = append(models, Model{ID: m.ID, MaxModelLen: m.MaxModelLen})
	}
	return models
}

func (c *Client) getJSON(ctx context.Context, u *url.URL, into any) error {
	var b Body
	if err := c.fetchPage(ctx, u, factsBounds, &b); err != nil {
		return err
	}
	if b.Status != http.StatusOK {
		return fmt.Errorf("ask %s: HTTP status %d", redactURL(u), b.Status)
	}
	return json.Unmarshal(b.Raw, into)
}
