// Package recording reads and writes recordings of metrics pages.
//
// A recording is a directory, or a .tar, .tar.gz or .tar.zst of one, that holds
// TARGET/UNIX_MILLISECONDS.prom files: each one scrape's raw page, empty when
// the scrape failed. An optional meta.json beside the targets holds [Notes]. A shell loop
// around curl can make one.
//
// [Open] reads it, whatever its container, and hands out its scrapes in the order of time; [Create] writes one. Nothing
// here parses a page: package embedded loads recordings into the storage that is queried. Recordings come from
// strangers, so sizes and names are checked before anything is kept.
package recording

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/base/hint"
)

// Limits on a recording's size. A recording of 100 targets of 60 kB each, scraped once a second, reaches the total
// after three minutes, so that bigger ones are recorded at a longer interval.
const (
	MaxTotal   = 1 << 30  // bytes, decompressed
	MaxEntry   = 64 << 20 // bytes of one page
	MaxEntries = 1_000_000
	maxNotes   = 1 << 20

	// inMemory is how much of an archive stays in memory; a four-minute recording
	// of one server has about 12 MB.
	inMemory = 64 << 20
)

// limits are the limits above, smaller in tests.
type limits struct {
	total, entry, memory int64
	entries              int
}

var defaultLimits = limits{total: MaxTotal, entry: MaxEntry, entries: MaxEntries, memory: inMemory}

// A Scrape is one file of a recording.
type Scrape struct {
	Target string    // its directory
	At     time.Time // its name
	Body   []byte    // the raw page; empty when the scrape failed
	// Took is the approximate duration of a failed scrape, 0 if unknown. It follows from the time of the scrape's file
	// in an archive, or from the times of the scrapes: a scraper that waits for one scrape before it begins the next is
	// late after a slow scrape.
	Took time.Duration
}

// Recording is an opened recording. It is safe for concurrent use.
type Recording struct {
	path     string
	targets  []string
	files    []pageFile // by time, then target
	store    store
	warnings []string
	notes    Notes
}

// Notes hold the servers' reports beside their pages, at the time of the recording. Other fields of the file are for
// human readers.
type Notes struct {
	Targets []Noted `json:"targets"`
}

// Noted is the report of one server.
type Noted struct {
	URL       string  `json:"url"` // URL address of its metrics page
	Health    int     `json:"health,omitempty"`
	HealthErr string  `json:"health_error,omitempty"`
	Version   string  `json:"version,omitempty"`
	Models    []Model `json:"models,omitempty"`
}

// Model is a model that a server lists.
type Model struct {
	ID          string `json:"id"`
	MaxModelLen int    `json:"max_model_len,omitempty"` // tokens, 0 when unsaid
}

// pageFile is one page, wherever it lies.
type pageFile struct {
	at       int64 // Unix milliseconds
	target   int   // index into targets
	place    location
	size     int64
	duration time.Duration // of a failed scrape, from its file's time; 0 if that does not tell
}

// store reads the pages that were found when the recording was opened.
type store interface {
	readPage(location, int64) ([]byte, error)
	Close() error
}

// location is an offset, or an index of a path.
type location int64

// Open opens a recording: a directory, an archive known by its first bytes, or a single page. An archive is read
// whole, until the context ends and within the limits above; pages beyond 64 MiB stay in a temporary file until
// Close.
func Open(ctx context.Context, path string) (*Recording, error) {
	return openWithin(ctx, path, defaultLimits)
}

func openWithin(ctx context.Context, path string, lim limits) (*Recording, error) {
	r, err := scanFiles(ctx, path, lim)
	if err != nil {
		return nil, fmt.Errorf("open recording %s: %w", path, err)
	}
	return r, nil
}

const wayOut = "name the files TARGET/UNIX_MILLISECONDS.prom, such as vllm-0/1795220770159.prom, " +
	"each one answer of /metrics"

func scanFiles(ctx context.Context, path string, lim limits) (*Recording, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, stripPath(err)
	}
	c := &collector{ctx: ctx, lim: lim, defaultTarget: baseName(path)}
	var st store
	if info.IsDir() {
		st, err = c.collectDirectory(path)
	} else {
		st, err = c.collectFile(path, info)
	}
	if err != nil {
		if st != nil {
			st.Close()
		}
		return nil, err
	}
	r := &Recording{path: path, store: st}
	if err := c.fillRecording(r); err != nil {
		st.Close()
		return nil, err
	}
	return r, nil
}

// Targets returns the names of the targets, sorted.
func (r *Recording) Targets() []string { return slices.Clone(r.targets) }

// Noted returns the report of a target's server; zero without one.
func (r *Recording) Noted(target string) Noted {
	for _, n := range r.notes.Targets {
		if DirectoryName(n.URL) == target || len(r.notes.Targets) == 1 && len(r.targets) == 1 {
			return n
		}
	}
	return Noted{}
}

// Len returns the number of scrapes.
func (r *Recording) Len() int { return len(r.files) }

// Times returns the times of the first and the last scrape.
func (r *Recording) Times() (first, last time.Time) {
	return time.UnixMilli(r.files[0].at), time.UnixMilli(r.files[len(r.files)-1].at)
}

// Warnings returns one sentence for each kind of data that was skipped when the recording was opened.
func (r *Recording) Warnings() []string { return slices.Clone(r.warnings) }

// Close releases the files of the recording.
func (r *Recording) Close() error { return r.store.Close() }

// Scrapes calls fn for every scrape in the order of time and, at equal times, of the targets' names. It ends with fn's
// first error. fn may keep bodies, but not change them.
func (r *Recording) Scrapes(fn func(Scrape) error) error {
	took := r.failureDurations()
	for i, f := range r.files {
		body, err := r.store.readPage(f.place, f.size)
		if err != nil {
			return fmt.Errorf("read recording %s: %s at %d: %w", r.path, r.targets[f.target], f.at, err)
		}
		if err := fn(Scrape{
			Target: r.targets[f.target], At: time.UnixMilli(f.at), Body: body, Took: took[i],
		}); err != nil {
			return err
		}
	}
	return nil
}

// Bounds for reading the duration of a failed scrape from the times of scrapes.
const (
	lateBy       = 1.5              // times the usual pace: the scrape before was slow
	longest      = 15 * time.Second // the longest scrape timeout; a longer gap is a pause
	fastPace     = 2 * time.Second  // a pace that shows that a scrape failed at once
	leastPaces   = 5                // scrapes that show a pace
	longestDated = time.Minute      // a longer delay of a file's time tells no duration
)

// failureDurations returns how long each failed scrape took, from the time of the next scrape: the scraper is late
// after a slow failure, and in its usual pace after a fast one.
func (r *Recording) failureDurations() []time.Duration {
	out := make([]time.Duration, len(r.files))
	gaps, last := make([][]time.Duration, len(r.targets)), make(map[int]int)
	for i, f := range r.files {
		if before, ok := last[f.target]; ok {
			out[before] = time.Duration(f.at-r.files[before].at) * time.Millisecond
			gaps[f.target] = append(gaps[f.target], out[before])
		}
		last[f.target] = i
	}
	for t := range gaps {
		slices.Sort(gaps[t])
	}
	for i, f := range r.files {
		all := gaps[f.target]
		if f.duration > 0 {
			out[i] = f.duration
			continue
		}
		if len(all) < leastPaces {
			out[i] = 0
			continue
		}
		late := out[i] > time.Duration(lateBy*float64(all[len(all)/2])) && out[i] > fastPace && out[i] <= longest
		if f.size > 0 || !late && out[i] > fastPace {
			out[i] = 0
		}
	}
	return out
}

// baseName returns the name of a recording without directory and extensions.
func baseName(path string) string {
	name := strings.TrimRight(path, "/")
	name = name[strings.LastIndexByte(name, '/')+1:]
	for _, ext := range []string{".zst", ".gz", ".tgz", ".tar", ".prom", ".txt"} {
		name = strings.TrimSuffix(name, ext)
	}
	if name == "" || name == "." || name == ".." {
		return "target"
	}
	return name
}

// stripPath drops the path from an error of package os, because the caller adds it.
func stripPath(err error) error {
	if e, ok := err.(*os.PathError); ok {
		return e.Err
	}
	return err
}

func noScrapes(skipped int, example string) error {
	if skipped == 0 {
		return hint.With(fmt.Errorf("has no scrapes"), wayOut)
	}
	return hint.With(fmt.Errorf("has no scrapes, but %d files with other names, such as %q", skipped, example), wayOut)
}
