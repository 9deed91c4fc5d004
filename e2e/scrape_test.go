//go:build e2e

package e2e

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"time"

	"github.com/klauspost/compress/zstd"
)

const (
	scrapeInterval = time.Second
	scrapeTimeout  = 5 * time.Second // a slow scrape is a symptom, and must not be lost
	maxBody        = 16 << 20
)

// scrape scrapes once a second until ctx ends, and writes dir/NAME/UNIX_MS.prom, named after the time at which the
// scrape began. A failed scrape leaves an empty file. As in Prometheus, a scrape that takes longer than the interval
// delays the next one.
func scrape(ctx context.Context, s *Server, dir string) error {
	dir = filepath.Join(dir, s.Name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("scrape %s: %w", s.Name, err)
	}
	client := &http.Client{Timeout: scrapeTimeout}
	defer client.CloseIdleConnections()
	for tick := time.NewTicker(scrapeInterval); ; {
		at := time.Now()
		body, err := get(client, s.URL()+"/metrics")
		if err != nil {
			body = nil
		}
		if err := os.WriteFile(filepath.Join(dir, strconv.FormatInt(at.UnixMilli(), 10)+".prom"), body,
			0o644); err != nil {
			return fmt.Errorf("scrape %s: %w", s.Name, err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			tick.Stop()
			return nil
		}
	}
}

func get(client *http.Client, url string) ([]byte, error) {
	resp, err := client.Get(url)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, errors.New(resp.Status)
	}
	return io.ReadAll(io.LimitReader(resp.Body, maxBody))
}

// archive packs the .prom files under dir into a .tar.zst at path, in order of target and time.
func archive(dir, path string) (err error) {
	names, err := filepath.Glob(filepath.Join(dir, "*", "*.prom"))
	if err != nil {
		return err
	}
	sort.Strings(names)
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("archive: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	z, err := zstd.NewWriter(f, zstd.WithEncoderLevel(zstd.SpeedBestCompression),
		zstd.WithWindowSize(zstd.MaxWindowSize>>4), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return fmt.Errorf("archive: %w", err)
	}
	w := tar.NewWriter(z)
	for _, name := range names {
		body, err := os.ReadFile(name)
		if err != nil {
			return fmt.Errorf("archive: %w", err)
		}
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			return fmt.Errorf("archive: %w", err)
		}
		if err := w.WriteHeader(&tar.Header{Name: filepath.ToSlash(rel), Mode: 0o644, Size: int64(len(body)),
			Format: tar.FormatUSTAR}); err != nil {
			return fmt.Errorf("archive %s: %w", rel, err)
		}
		if _, err := w.Write(body); err != nil {
			return fmt.Errorf("archive %s: %w", rel, err)
		}
	}
	return errors.Join(w.Close(), z.Close())
}
