package recording

import (
	"archive/tar"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/sixty-dev/sixty/internal/base/hint"
)

// Writer writes a recording while it happens. Every Add and SetMeta leaves a readable recording on disk: an interrupted
// recording only lacks the end mark of its container, and Open warns of that. It is safe for concurrent use.
type Writer struct {
	mu   sync.Mutex
	path string
	out  sink
	dirs map[string]string // target → directory
	used map[string]bool
	err  error
}

// sink is a container that is being written.
type sink interface {
	writeFile(name string, at time.Time, body []byte) error
	Close() error
}

// Create begins a recording: an archive for a name that ends in .tar, .tar.gz, .tgz or .tar.zst, and a directory for
// any other. An existing recording is neither overwritten nor extended, because two recordings in one would be judged
// as one life of the servers. An existing directory must be empty.
func Create(path string) (*Writer, error) {
	out, err := newSink(path)
	if errors.Is(err, os.ErrExist) {
		return nil, hint.With(fmt.Errorf("create recording %s: %w", path, stripPath(err)),
			"choose another name, or remove what is there")
	}
	if err != nil {
		return nil, fmt.Errorf("create recording %s: %w", path, stripPath(err))
	}
	return &Writer{path: path, out: out, dirs: make(map[string]string), used: make(map[string]bool)}, nil
}

func newSink(path string) (sink, error) {
	lower := strings.ToLower(path)
	var compress func(io.Writer) (flusher, error)
	switch {
	case strings.HasSuffix(lower, ".tar.zst"):
		// One block per page, all in one frame, so that a page costs little more than
		// its difference from the page before.
		compress = func(w io.Writer) (flusher, error) { return zstd.NewWriter(w, zstd.WithEncoderConcurrency(1)) }
	case strings.HasSuffix(lower, ".tar.gz"), strings.HasSuffix(lower, ".tgz"):
		compress = func(w io.Writer) (flusher, error) { return gzip.NewWriter(w), nil }
	case strings.HasSuffix(lower, ".tar"):
		compress = func(w io.Writer) (flusher, error) { return uncompressed{w}, nil }
	case slices.Contains([]string{".zst", ".gz", ".zip", ".bz2", ".xz", ".7z", ".rar"}, filepath.Ext(lower)):
		return nil, hint.With(errors.New("unknown format"), "use a name ending in .tar.zst, .tar.gz "+
			"or .tar, or a directory")
	default:
		if err := os.MkdirAll(path, 0o755); err != nil {
			return nil, err
		}
		if there, err := os.ReadDir(path); err != nil || len(there) > 0 {
			return nil, cmp.Or(err, os.ErrExist)
		}
		return dirSink(path), nil
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, err
	}
	z, err := compress(f)
	if err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(path))
	}
	return &tarSink{file: f, z: z, tar: tar.NewWriter(z)}, nil
}

// Add writes one scrape. An empty body stands for a failed scrape; an archive keeps its duration, 0 if unknown, in
// the time of its file. The target is an address or a name, and its directory never shows user, password or query.
func (w *Writer) Add(target string, at time.Time, body []byte, took time.Duration) error {
	ms := at.UnixMilli()
	if ms < 0 || ms > maxUnixMilli {
		return fmt.Errorf("write recording %s: time %s is not between 1970 and 2262", w.path,
			at.UTC().Format(time.RFC3339))
	}
	if len(body) > MaxEntry {
		return fmt.Errorf("write recording %s: a page of %s is larger than %d bytes", w.path, DirectoryName(target),
			MaxEntry)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.writeFile(w.assignDirectory(target)+"/"+strconv.FormatInt(ms, 10)+".prom", at.Add(took), body)
}

// notes is the file beside the targets that holds Notes.
const notes = "meta.json"

// SetMeta writes meta.json. It may be called again; in an archive, which only grows, the last meta.json counts.
func (w *Writer) SetMeta(text []byte) error {
	if len(text) > maxNotes {
		return fmt.Errorf("write recording %s: notes are larger than %d bytes", w.path, maxNotes)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.writeFile(notes, time.Now(), text)
}

// writeFile writes one file. After an error nothing more is written, because entries after a broken one are unreadable.
func (w *Writer) writeFile(name string, at time.Time, body []byte) error {
	if w.err == nil {
		if err := w.out.writeFile(name, at, body); err != nil {
			w.err = fmt.Errorf("write recording %s: %w", w.path, stripPath(err))
		}
	}
	return w.err
}

// Close ends the recording.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.out == nil {
		return nil
	}
	err := w.out.Close()
	w.out, w.err = nil, fmt.Errorf("write recording %s: %w", w.path, os.ErrClosed)
	if err != nil {
		return fmt.Errorf("close recording %s: %w", w.path, err)
	}
	return nil
}

// Directory returns a target's directory. Every target has its own.
func (w *Writer) Directory(target string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.assignDirectory(target)
}

func (w *Writer) assignDirectory(target string) string {
	if dir, ok := w.dirs[target]; ok {
		return dir
	}
	name := DirectoryName(target)
	dir := name
	for i := 2; w.used[dir]; i++ {
		dir = fmt.Sprintf("%s-%d", name, i)
	}
	w.dirs[target], w.used[dir] = dir, true
	return dir
}

// DirectoryName returns the name of a target's directory: HOST:PORT of an address, and its path if that is not
// /metrics, with an underscore for every character that is not a letter, a digit or one of ".-_:[]".
func DirectoryName(target string) string {
	const most = 200
	s := target
	if strings.Contains(s, "://") {
		u, err := url.Parse(s)
		if err != nil {
			return "target"
		}
		s = u.Host + strings.TrimSuffix(strings.TrimRight(u.Path, "/"), "/metrics")
	}
	s = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', strings.ContainsRune(".-_:[]", r):
			return r
		}
		return '_'
	}, s[:min(len(s), most)])
	if strings.HasPrefix(s, ".") {
		s = "_" + s[1:]
	}
	if s == "" {
		return "target"
	}
	return s
}

// CopyPart copies some directories of an archive that Create made, a .tar.zst, to another archive. The notes, which are
// about all targets, are not copied.
func CopyPart(to io.Writer, path string, directories []string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("copy recording %s: %w", path, stripPath(err))
		}
	}()
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := zstd.NewReader(f, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return err
	}
	defer z.Close()
	packed, err := zstd.NewWriter(to, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	in, out := tar.NewReader(z), tar.NewWriter(packed)
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return errors.Join(out.Close(), packed.Close())
		}
		if err != nil {
			return err
		}
		if dir, _, _ := strings.Cut(h.Name, "/"); slices.Contains(directories, dir) {
			if err := out.WriteHeader(h); err != nil {
				return err
			}
			if _, err := io.Copy(out, in); err != nil {
				return err
			}
		}
	}
}

// flusher is a compressor whose blocks can be ended.
type flusher interface {
	io.WriteCloser
	Flush() error
}

type uncompressed struct{ io.Writer }

func (uncompressed) Flush() error { return nil }
func (uncompressed) Close() error { return nil }

type tarSink struct {
	file *os.File
	z    flusher
	tar  *tar.Writer
}

func (s *tarSink) writeFile(name string, at time.Time, body []byte) error {
	h := &tar.Header{
		Name: name, Mode: 0o644, Size: int64(len(body)), ModTime: at.Truncate(time.Second), Typeflag: tar.TypeReg,
	}
	if len(body) == 0 {
		h.ModTime, h.Format = at.Round(time.Millisecond), tar.FormatPAX // other files have whole seconds
	}
	if err := s.tar.WriteHeader(h); err != nil {
		return err
	}
	if _, err := s.tar.Write(body); err != nil {
		return err
	}
	if err := s.tar.Flush(); err != nil {
		return err
	}
	return s.z.Flush()
}

func (s *tarSink) Close() error {
	return errors.Join(s.tar.Close(), s.z.Close(), s.file.Close())
}

// dirSink is a directory. A page appears under its name when it is complete.
type dirSink string

func (d dirSink) writeFile(name string, _ time.Time, body []byte) error {
	pagePath := filepath.Join(string(d), filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(pagePath), 0o755); err != nil {
		return err
	}
	tmp := filepath.Join(filepath.Dir(pagePath), "."+filepath.Base(pagePath))
	if err := os.WriteFile(tmp, body, 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, pagePath)
}

func (dirSink) Close() error { return nil }
