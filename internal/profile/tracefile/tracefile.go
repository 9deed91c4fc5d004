// Package tracefile finds, opens and reads traces of every format: JSON of torch.profiler, plain or compressed, and
// SQLite databases of Nsight Systems. Its errors name the format of files that are not traces.
//
// Profile reads several traces and directories into one profile.
package tracefile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/profile"
	"github.com/sixty-dev/sixty/internal/profile/nsys"
	"github.com/sixty-dev/sixty/internal/profile/nsys/sqlite"
	"github.com/sixty-dev/sixty/internal/profile/torch"
)

// Stdin is the path of the standard input.
const Stdin = "-"

// maxFiles is the most traces in a directory: one for each rank.
const maxFiles = 4096

const exportHint = "export it first: nsys export --type sqlite REPORT.nsys-rep"

// List returns the traces behind a path: the file itself, or the traces in a directory.
func List(path string) ([]string, error) {
	if path == Stdin {
		return []string{path}, nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, errors.Unwrap(err))
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, errors.Unwrap(err))
	}
	var found []string
	for _, e := range entries {
		name := strings.ToLower(e.Name())
		ends := func(end string) bool { return strings.HasSuffix(name, end) }
		trace := slices.ContainsFunc([]string{".json", ".json.gz", ".json.zst", ".sqlite"}, ends)
		if trace && isReadable(filepath.Join(path, e.Name())) {
			found = append(found, filepath.Join(path, e.Name()))
		}
	}
	slices.Sort(found)
	found = Workers(found)
	switch {
	case len(found) == 0:
		return nil, hint.With(fmt.Errorf("%s: no traces in this directory", path),
			"traces end in .json, .json.gz or .sqlite; sixty profile how prints the commands to take one")
	case len(found) > maxFiles:
		return nil, fmt.Errorf("%s: %d traces, at most %d are read together", path, len(found), maxFiles)
	}
	return found, nil
}

// isReadable reports whether opening a path does not block, as it does for a pipe.
func isReadable(path string) bool {
	info, err := os.Stat(path)
	return err != nil || info.Mode().IsRegular()
}

// Workers returns the paths without traces of vLLM's front end, which is not a rank, if there are any others.
func Workers(paths []string) []string {
	workers := slices.DeleteFunc(slices.Clone(paths), func(p string) bool {
		return strings.Contains(filepath.Base(p), "async_llm")
	})
	if len(workers) > 0 {
		return workers
	}
	return paths
}

func openFile(path string) (file *os.File, size int64, err error) {
	if path == Stdin {
		return os.Stdin, 0, nil
	}
	file, err = os.Open(path)
	if err != nil {
		return nil, 0, fmt.Errorf("open %s: %w", path, errors.Unwrap(err))
	}
	info, err := file.Stat()
	if err != nil {
		return nil, 0, errors.Join(fmt.Errorf("open %s: %w", path, errors.Unwrap(err)), file.Close())
	}
	return file, info.Size(), nil
}

// Read reads one trace, with at most limit events (see profile.New).
func Read(ctx context.Context, path string, limit int) (*profile.Timeline, error) {
	file, size, err := openFile(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	head := make([]byte, 512)
	n, err := io.ReadFull(file, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	head = head[:n]
	if bytes.HasPrefix(head, []byte(sqlite.Magic)) {
		if path == Stdin {
			return nil, hint.With(errors.New("read the standard input: "+
				"a database of Nsight Systems is read from a file"), "save it, and give its path")
		}
		return nsys.Read(ctx, file, size, path, limit)
	}
	if err := checkForeign(path, head); err != nil {
		return nil, err
	}
	in := &counter{r: io.MultiReader(bytes.NewReader(head), file)}
	var read io.Reader = in
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, hint.With(fmt.Errorf("read %s: %w", path, err), "the file is damaged: copy it again")
		}
		read = &guard{r: z, in: in}
	case bytes.HasPrefix(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(128<<20))
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		defer z.Close()
		read = &guard{r: z, in: in}
	}
	ahead, stop := readAhead(read)
	defer stop()
	return torch.Read(ctx, ahead, path, limit)
}

// checkForeign returns an error that names the format of a file that is not a trace.
func checkForeign(path string, head []byte) error {
	for _, x := range []struct{ prefix, suffix, is, hint string }{
		{
			"version https://git-lfs.github.com/", "", "a Git LFS pointer instead of the file",
			"fetch the file itself: git lfs pull --include " + filepath.Base(path),
		},
		{"", ".nsys-rep", "a report of Nsight Systems, in its own format", exportHint},
		{"", ".qdrep", "a report of Nsight Systems, in its own format", exportHint},
		{"PAR1", "", "a Parquet file: one table of an export of Nsight Systems", exportHint},
		{"PK\x03\x04", "", "a zip archive", "unpack it, and give the .json in it"},
	} {
		if bytes.HasPrefix(head, []byte(x.prefix)) && strings.HasSuffix(strings.ToLower(path), x.suffix) {
			return hint.With(fmt.Errorf("read %s: %s", path, x.is), x.hint)
		}
	}
	switch {
	case len(head) > 262 && string(head[257:262]) == "ustar":
		return hint.With(fmt.Errorf("read %s: a tar archive", path), "unpack it, and give the directory")
	case len(head) == 0:
		return hint.With(fmt.Errorf("read %s: the file is empty", path), "the profiler did not finish writing: "+
			"wait for stop_profile to answer, and see that the disk is not full")
	}
	return nil
}

// A counter counts the bytes that are read.
type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err //nolint:wrapcheck // a reader's errors stay as they are
}

// A stream is a decompression bomb if it unpacks to more than bombSize bytes and bombRatio times its size. Traces
// unpack to ten or thirty times theirs, and deflate can reach a thousand.
const (
	bombSize  = 64 << 20
	bombRatio = 200
)

var errBomb = fmt.Errorf("it unpacks to more than %d times its size, which no trace does", bombRatio)

// A guard ends a stream that is a decompression bomb.
type guard struct {
	r  io.Reader
	in *counter // the compressed stream
	n  int64    // bytes unpacked
}

func (g *guard) Read(p []byte) (int, error) {
	n, err := g.r.Read(p)
	g.n += int64(n)
	if g.n > bombSize && g.n/bombRatio > g.in.n {
		return 0, errBomb
	}
	return n, err //nolint:wrapcheck // as above
}

// readAhead reads r on another goroutine, so that unpacking and parsing use two processors. The returned function ends
// the goroutine and waits for it; call it before closing r.
func readAhead(r io.Reader) (io.Reader, func()) {
	out, in := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, err := io.CopyBuffer(struct{ io.Writer }{in}, struct{ io.Reader }{r}, make([]byte, aheadSize))
		in.CloseWithError(err)
	}()
	return out, func() {
		out.Close()
		<-done
	}
}

const aheadSize = 1 << 20
