// Package collected reads spans from where they were collected: files of OpenTelemetry's collector (Files), and the
// HTTP APIs of Tempo, Jaeger and sixty serve (Fetch). Package trace decodes them.
package collected

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/prometheus/common/config"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/base/unanswered"
	"github.com/sixty-dev/sixty/internal/trace"
)

// Bounds of files and answers.
const (
	maxFile = 256 << 20
	timeout = 30 * time.Second
)

// Files reads the spans of files; "-" is the standard input.
func Files(paths []string) (out []trace.Span, err error) {
	for _, path := range paths {
		spans, err := readFile(path)
		if err != nil {
			return nil, hint.Or(fmt.Errorf("read %s: %w", path, err),
				"give a file written by the collector's file exporter")
		}
		out = append(out, spans...)
	}
	return out, nil
}

func readFile(path string) ([]trace.Span, error) {
	f := os.Stdin
	if path != "-" {
		var err error
		if f, err = os.Open(path); err != nil {
			return nil, errors.Unwrap(err) //nolint:wrapcheck // the caller names the path
		}
		defer f.Close()
		if info, err := f.Stat(); err == nil && info.Size() > maxFile {
			return nil, hint.With(fmt.Errorf("%d bytes: the limit is %d", info.Size(), maxFile),
				"let the file exporter rotate its files, and give the one for that time")
		}
	}
	return trace.Read(io.LimitReader(f, maxFile))
}

// IsURL reports whether an argument is the address of a server.
func IsURL(arg string) bool {
	return strings.HasPrefix(arg, "http://") || strings.HasPrefix(arg, "https://")
}

// Fetch asks Tempo, Jaeger or sixty serve for one trace. sixty serve answers with a report, which has the normal times
// of its servers; the others answer with spans.
func Fetch(ctx context.Context, base, id string, cfg config.HTTPClientConfig) ([]trace.Span, *trace.Report, error) {
	u, err := url.Parse(strings.TrimRight(base, "/"))
	if err != nil || u.Host == "" {
		return nil, nil, errors.New("the address of the traces is not a URL")
	}
	client, err := config.NewClientFromConfig(cfg, "sixty_traces", config.WithUserAgent("sixty"))
	if err != nil {
		return nil, nil, fmt.Errorf("HTTP settings: %w", err)
	}
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	u.RawQuery, u.Fragment = "", ""
	for _, path := range []string{"api", "api/v1"} { // sixty's is v1
		status, kind, body, err := getTrace(ctx, client, u.JoinPath(path, "traces", url.PathEscape(id)).String())
		switch {
		case err != nil:
			return nil, nil, hint.With(fmt.Errorf("%s: %w", u.Redacted(), unanswered.Cause(err)),
				unanswered.Hint(err, "check that it runs and that the port is right: "+
					"3200 for Tempo, 16686 for Jaeger, 6060 for sixty serve"))
		case status == http.StatusNotFound,
			path != "api" && strings.HasPrefix(kind, "text/html"): // Jaeger answers other paths with its page
			continue
		case status == http.StatusUnauthorized || status == http.StatusForbidden:
			return nil, nil, hint.With(fmt.Errorf("%s answers with status %d", u.Redacted(), status),
				"give its token with --bearer-token-file or --header")
		case status != http.StatusOK:
			return nil, nil, fmt.Errorf("%s answers with status %d", u.Redacted(), status)
		}
		spans, report, err := decodeAnswer(kind, body)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", u.Redacted(), err)
		}
		return spans, report, nil
	}
	return nil, nil, hint.With(fmt.Errorf("%s has no trace %s", u.Redacted(), id),
		"check the id, all 32 digits of it, and the retention of traces; "+
			"the address is that of Tempo (port 3200), Jaeger (16686) or sixty serve (6060)")
}

func getTrace(ctx context.Context, client *http.Client,
	address string,
) (status int, kind string, body []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return 0, "", nil, fmt.Errorf("ask: %w", err)
	}
	// Tempo's JSON is its own, its protobuf OTLP's; Jaeger and sixty answer JSON.
	req.Header.Set("Accept", "application/protobuf")
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", nil, err //nolint:wrapcheck // the caller says what it means
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(io.LimitReader(resp.Body, trace.MaxMessage+1))
	if err == nil && len(body) > trace.MaxMessage {
		err = fmt.Errorf("an answer of more than %d bytes", trace.MaxMessage)
	}
	return resp.StatusCode, resp.Header.Get("Content-Type"), body, err
}

func decodeAnswer(contentType string, answer []byte) ([]trace.Span, *trace.Report, error) {
	if strings.Contains(contentType, "protobuf") {
		spans, err := trace.Proto(answer)
		return spans, nil, err
	}
	var own trace.Report
	if json.Unmarshal(answer, &own) == nil && own.Schema == trace.Schema {
		return nil, &own, nil
	}
	spans, err := trace.JSON(answer)
	return spans, nil, err
}
