package recording

import (
	"archive/tar"
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/sixty-dev/sixty/internal/base/fileio"
	"github.com/sixty-dev/sixty/internal/base/hint"
)

// collectDirectory finds the pages below root.
func (c *collector) collectDirectory(root string) (store, error) {
	st := &paths{root: root}
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		if d.IsDir() {
			if rel != "." && strings.HasPrefix(d.Name(), ".") {
				return filepath.SkipDir
			}
			return nil
		}
		return c.collectEntry(st, filepath.ToSlash(rel), d)
	})
	return st, err
}

func (c *collector) collectEntry(st *paths, rel string, d fs.DirEntry) error {
	kind, dir, at, err := c.classifyName(rel)
	if err != nil || kind == other || kind == junk {
		return err
	}
	if !d.Type().IsRegular() {
		c.countSkipped(rel)
		return nil
	}
	info, err := d.Info()
	if err != nil {
		return err
	}
	if err := c.checkSize(rel, info.Size()); err != nil {
		return err
	}
	if kind == meta {
		f, err := os.Open(filepath.Join(st.root, filepath.FromSlash(rel)))
		if err != nil {
			return stripPath(err)
		}
		return errors.Join(c.addNotes(dir, f), f.Close())
	}
	st.names = append(st.names, rel)
	c.addScrape(dir, at, location(len(st.names)-1), info.Size(), 0)
	return nil
}

// collectFile reads an archive, or a single page.
func (c *collector) collectFile(path string, info fs.FileInfo) (store, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, stripPath(err)
	}
	defer f.Close()
	start := make([]byte, 512)
	n, err := io.ReadFull(f, start)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return nil, stripPath(err)
	}
	start = start[:n]
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, stripPath(err)
	}
	switch {
	case bytes.HasPrefix(start, []byte{0x28, 0xb5, 0x2f, 0xfd}): // RFC 8878, section 3.1.1
		return c.collectZstd(f)
	case bytes.HasPrefix(start, []byte{0x1f, 0x8b}): // RFC 1952, section 2.3.1
		z, err := gzip.NewReader(f)
		if err != nil {
			return nil, fmt.Errorf("gzip: %w", err)
		}
		return c.collectArchive(z)
	case isTar(start):
		return c.collectArchive(f)
	}
	return c.collectPage(path, info)
}

// isTar reports whether a file begins with a tar header: ustar, pax and GNU
// headers carry a magic at 257 (POSIX pax, "ustar Interchange Format").
func isTar(start []byte) bool {
	return len(start) >= 262 && bytes.Equal(start[257:262], []byte("ustar"))
}

func (c *collector) collectZstd(r io.Reader) (store, error) {
	z, err := zstd.NewReader(r,
		zstd.WithDecoderMaxWindow(128<<20),
		// One block at a time, so that a truncated file yields all that is before the cut.
		zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, fmt.Errorf("zstd: %w", err)
	}
	defer z.Close()
	return c.collectArchive(z)
}

// collectPage reads a single page as a scrape at the time in its name, else at the time when it was written.
func (c *collector) collectPage(path string, info fs.FileInfo) (store, error) {
	name := filepath.Base(path)
	ext := strings.ToLower(filepath.Ext(name))
	if ext != ".prom" && ext != ".txt" {
		return nil, hint.With(errors.New("neither a directory, a tar archive nor a page"),
			"give a directory, a .tar, .tar.gz or .tar.zst of TARGET/UNIX_MILLISECONDS.prom files, "+
				"or a .prom or .txt file")
	}
	c.entries++
	if err := c.checkSize(name, info.Size()); err != nil {
		return nil, err
	}
	at, ok := c.timeOf(strings.TrimSuffix(name, filepath.Ext(name)) + ".prom")
	if !ok {
		at = info.ModTime().UnixMilli()
		c.addWarning("used the file's date as the time of its only page")
	}
	c.addScrape("", at, 0, info.Size(), 0)
	return &paths{root: filepath.Dir(path), names: []string{name}}, nil
}

// collectArchive spools the pages of a tar archive. Entries after a damaged place are lost, with a warning.
func (c *collector) collectArchive(r io.Reader) (store, error) {
	sp := &spool{memory: c.lim.memory}
	// The reader is bounded too, because an archive of headers alone may decompress without end.
	const headers = 4 * 512 // per file: header, padding, pax records
	bounded := &io.LimitedReader{R: bufio.NewReaderSize(r, 1<<16), N: c.lim.total + int64(c.lim.entries)*headers}
	t := tar.NewReader(bounded)
	for {
		h, err := t.Next()
		switch {
		case errors.Is(err, io.EOF):
			return sp, nil
		case err != nil:
			err = &damagedArchive{err}
		default:
			err = c.collectArchived(sp, t, h)
		}
		if err == nil {
			continue
		}
		var broken *damagedArchive
		switch {
		case bounded.N <= 0:
			return sp, hint.With(fmt.Errorf("more than %d bytes, decompressed", c.lim.total),
				"split the recording, by target or by time")
		case !errors.As(err, &broken):
			return sp, err
		case len(c.found) == 0:
			return sp, hint.With(fmt.Errorf("damaged archive: %w", err), "copy the file again, or check it with tar -t")
		}
		c.addWarning("the archive is cut off or damaged after %d scrapes: %v", len(c.found), err)
		return sp, nil
	}
}

// damagedArchive is an error of the archive itself, not of its content.
type damagedArchive struct{ err error }

func (d *damagedArchive) Error() string { return d.err.Error() }
func (d *damagedArchive) Unwrap() error { return d.err }

func (c *collector) collectArchived(sp *spool, t *tar.Reader, h *tar.Header) error {
	switch h.Typeflag {
	case tar.TypeReg:
	case tar.TypeDir, tar.TypeXGlobalHeader:
		return checkName(h.Name)
	default:
		return hint.With(fmt.Errorf("%s is not a plain file", shortenName(h.Name)),
			"pack the recording again without links and devices")
	}
	kind, dir, at, err := c.classifyName(h.Name)
	if err != nil {
		return err
	}
	if err := c.checkSize(h.Name, h.Size); err != nil {
		return err
	}
	switch kind {
	case meta:
		if err := c.addNotes(dir, t); err != nil {
			return &damagedArchive{err}
		}
		return nil
	case page:
	default:
		return nil
	}
	loc, err := sp.addPage(t, h.Size)
	if err == nil {
		took := h.ModTime.Sub(time.UnixMilli(at))
		if h.Size > 0 || took < 0 || took > longestDated {
			took = 0
		}
		c.addScrape(dir, at, loc, h.Size, took)
	}
	return err
}

// paths holds pages in files.
type paths struct {
	root  string
	names []string
}

func (p *paths) readPage(loc location, size int64) ([]byte, error) {
	body, err := fileio.Read(filepath.Join(p.root, filepath.FromSlash(p.names[loc])), MaxEntry)
	if err != nil {
		return nil, err
	}
	// A page that grew since it was listed is still being written: its first bytes are used.
	return body[:min(int64(len(body)), size)], nil
}

func (*paths) Close() error { return nil }

// spool keeps the pages of an archive, the first in memory and the rest in a
// temporary file.
type spool struct {
	pages  [][]byte
	page   bytes.Buffer // for the page that is being read; reused
	memory int64        // bytes of memory left
	disk   *os.File
	offset int64
}

// addPage reads size bytes. Locations of pages on disk are negative: -1 - offset.
func (s *spool) addPage(r io.Reader, size int64) (location, error) {
	if size <= s.memory {
		// The size in the header may be false, so the buffer grows with the bytes that come.
		s.page.Reset()
		if _, err := io.CopyN(&s.page, r, size); err != nil {
			return 0, &damagedArchive{err}
		}
		s.memory -= size
		s.pages = append(s.pages, bytes.Clone(s.page.Bytes()))
		return location(len(s.pages) - 1), nil
	}
	if s.disk == nil {
		f, err := os.CreateTemp("", "sixty-recording-")
		if err != nil {
			return 0, fmt.Errorf("spool: %w", err)
		}
		s.disk = f
	}
	at := s.offset
	n, err := io.CopyN(writer{s.disk}, r, size)
	s.offset += n
	if w := (*writeError)(nil); errors.As(err, &w) {
		return 0, hint.With(fmt.Errorf("spool: %w", w.err), "free space in the temporary directory, or set TMPDIR")
	}
	if err != nil {
		return 0, &damagedArchive{err}
	}
	return location(-1 - at), nil
}

// writer marks write errors, to distinguish them from errors of the archive.
type writer struct{ io.Writer }

type writeError struct{ err error }

func (e *writeError) Error() string { return e.err.Error() }

func (w writer) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	if err != nil {
		err = &writeError{err}
	}
	return n, err
}

func (s *spool) readPage(loc location, size int64) ([]byte, error) {
	if loc >= 0 {
		return s.pages[loc], nil
	}
	body := make([]byte, size)
	_, err := s.disk.ReadAt(body, int64(-1-loc))
	return body, err
}

func (s *spool) Close() error {
	if s.disk == nil {
		return nil
	}
	return errors.Join(s.disk.Close(), os.Remove(s.disk.Name()))
}
