package recording

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/base/hint"
)

// maxUnixMilli is the year 2262, where nanoseconds in 64 bits end.
const maxUnixMilli = 9_223_372_036_854 - 1

// maxName bounds the name of a file inside a recording.
const maxName = 4096

// A collector gathers and checks the files of a container one by one.
type collector struct {
	ctx           context.Context // ends the collecting
	lim           limits
	defaultTarget string // the target of pages that lie in no directory

	found   []foundPage
	entries int
	total   int64

	notes      []byte // from the meta.json that is furthest up
	notesDepth int

	skipped  int
	example  string
	seconds  int
	warnings []string
}

type foundPage struct {
	directory string
	at        int64
	place     location
	size      int64
	duration  time.Duration // for a failed scrape; 0 when unknown
}

// kind is the kind of a file by its name.
type kind int

const (
	other kind = iota
	page
	meta // notes
	junk // files of operating systems and editors
)

// classifyName checks a file's name, and returns the kind of the file and, for a page, its directory and time in
// milliseconds.
func (c *collector) classifyName(name string) (k kind, inDir string, at int64, err error) {
	if c.ctx.Err() != nil {
		return other, "", 0, context.Cause(c.ctx)
	}
	c.entries++
	if c.entries > c.lim.entries {
		return other, "", 0, hint.With(fmt.Errorf("more than %d files", c.lim.entries),
			"split the recording, by target or by time")
	}
	if err := checkName(name); err != nil {
		return other, "", 0, err
	}
	name = path.Clean(name)
	inDir, base := path.Split(name)
	inDir = strings.TrimSuffix(inDir, "/")
	for part := range strings.SplitSeq(name, "/") {
		// macOS keeps attributes in ._NAME and __MACOSX; names with a dot are hidden files.
		if strings.HasPrefix(part, ".") && part != "." || part == "__MACOSX" {
			return junk, "", 0, nil
		}
	}
	if base == notes {
		return meta, inDir, 0, nil
	}
	at, ok := c.timeOf(base)
	if !ok {
		c.countSkipped(name)
		return other, "", 0, nil
	}
	return page, inDir, at, nil
}

// checkName refuses names that lead out of the recording.
func checkName(name string) error {
	bad := func(why string) error {
		return hint.With(fmt.Errorf("file name %q %s", shortenName(name), why),
			"do not trust this recording: unpack and inspect it by hand, and pack the directory again")
	}
	switch {
	case len(name) > maxName:
		return bad("is too long")
	case name == "", strings.ContainsRune(name, 0):
		return bad("is malformed")
	case strings.HasPrefix(name, "/"), strings.Contains(name, `\`), len(name) > 1 && name[1] == ':' &&
		strings.HasPrefix(name[2:], "/"):
		return bad("is absolute")
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return bad("leaves the recording")
		}
	}
	return nil
}

func shortenName(s string) string { return s[:min(len(s), 80)] }

// timeOf parses UNIX_MILLISECONDS.prom. Seconds (date +%s), microseconds and nanoseconds of this century are
// recognized by their size.
func (c *collector) timeOf(base string) (int64, bool) {
	digits, ok := strings.CutSuffix(base, ".prom")
	if !ok || digits == "" || len(digits) > 19 || strings.Trim(digits, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return 0, false
	}
	switch len(digits) {
	case 10:
		n, c.seconds = n*1000, c.seconds+1
	case 16:
		n /= 1e3
	case 19:
		n /= 1e6
	}
	return n, n <= maxUnixMilli
}

func (c *collector) countSkipped(name string) {
	if c.skipped == 0 {
		c.example = shortenName(name)
	}
	c.skipped++
}

// checkSize adds the size of one file to the total, and refuses what exceeds the limits.
func (c *collector) checkSize(name string, size int64) error {
	if size > c.lim.entry {
		return hint.With(fmt.Errorf("%s is larger than %d bytes", shortenName(name), c.lim.entry),
			"leave this file out: no metrics page is that large")
	}
	c.total += size
	if c.total > c.lim.total {
		return hint.With(fmt.Errorf("more than %d bytes, decompressed, at %s", c.lim.total, shortenName(name)),
			"split the recording, by target or by time")
	}
	return nil
}

// addNotes keeps the notes of a file, unless there were notes further up. A file too large to be notes is skipped.
func (c *collector) addNotes(dir string, text io.Reader) error {
	depth := 0
	if dir != "" {
		depth = 1 + strings.Count(dir, "/")
	}
	if c.notes != nil && depth > c.notesDepth {
		return nil
	}
	b, err := io.ReadAll(io.LimitReader(text, maxNotes+1))
	if err != nil {
		return err
	}
	if len(b) > maxNotes {
		c.addWarning("skipped %s: larger than %d bytes", notes, maxNotes)
		return nil
	}
	c.notes, c.notesDepth = b, depth
	return nil
}

func (c *collector) addScrape(dir string, at int64, loc location, size int64, took time.Duration) {
	c.found = append(c.found, foundPage{dir, at, loc, size, took})
}

func (c *collector) addWarning(format string, args ...any) {
	c.warnings = append(c.warnings, fmt.Sprintf(format, args...))
}

// fillRecording sorts the collected files into a Recording.
func (c *collector) fillRecording(r *Recording) error {
	if len(c.found) == 0 {
		return noScrapes(c.skipped, c.example)
	}
	if c.skipped > 0 {
		c.addWarning("skipped %d files with names other than UNIX_MILLISECONDS.prom, such as %q", c.skipped, c.example)
	}
	if c.seconds > 0 {
		c.addWarning("read %d file names with ten digits as Unix seconds", c.seconds)
	}
	names := c.targetNames()
	for _, n := range names {
		r.targets = append(r.targets, n)
	}
	slices.Sort(r.targets)
	r.targets = slices.Compact(r.targets)
	index := make(map[string]int, len(names))
	for dir, n := range names {
		index[dir], _ = slices.BinarySearch(r.targets, n)
	}
	for _, f := range c.found {
		r.files = append(r.files, pageFile{
			at: f.at, target: index[f.directory], place: f.place, size: f.size, duration: f.duration,
		})
	}
	slices.SortStableFunc(r.files, func(a, b pageFile) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.target, b.target))
	})
	kept := dropEqual(r.files)
	if n := len(r.files) - len(kept); n > 0 {
		c.addWarning("skipped %d duplicate files of a target and time; the last was kept", n)
	}
	r.files, r.warnings = kept, c.warnings
	if err := json.Unmarshal(c.notes, &r.notes); err != nil {
		r.notes = Notes{} // another program's file
	}
	return nil
}

// dropEqual keeps the last of the files of one target and time.
func dropEqual(files []pageFile) []pageFile {
	kept := files[:0:0]
	for i, f := range files {
		if i+1 < len(files) && files[i+1].at == f.at && files[i+1].target == f.target {
			continue
		}
		kept = append(kept, f)
	}
	return kept
}

// targetNames names the targets after their directories, without the leading directories that all of them share.
func (c *collector) targetNames() map[string]string {
	names := make(map[string]string)
	for _, f := range c.found {
		names[f.directory] = f.directory
	}
	for {
		first, ok := "", true
		for _, n := range names {
			head, _, deeper := strings.Cut(n, "/")
			if !deeper || first != "" && head != first {
				ok = false
				break
			}
			first = head
		}
		if !ok {
			break
		}
		for dir, n := range names {
			names[dir] = n[len(first)+1:]
		}
	}
	if n, ok := names[""]; ok && n == "" {
		names[""] = c.defaultTarget
	}
	return names
}
