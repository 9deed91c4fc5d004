package recording

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/metrics/metricstest"
)

var names = []string{"rec", "rec.tar", "rec.tar.gz", "rec.tgz", "rec.tar.zst", "REC.TAR.ZST"}

func TestWhatIsWrittenIsRead(t *testing.T) {
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), name)
			w, err := Create(path)
			must.Succeed(t, err)
			for _, err := range []error{
				w.SetMeta([]byte("first")),
				w.Add("http://user:secret@vllm-0:8000/metrics?token=secret", time.UnixMilli(1000), []byte("a_b 1\n"), 0),
				w.Add("vllm-1:8000", time.UnixMilli(1000), nil, 0),
				w.Add("http://user:secret@vllm-0:8000/metrics?token=secret", time.UnixMilli(2000), []byte("a_b 2\n"), 0),
				w.SetMeta([]byte("second")),
				w.Close(),
				w.Close(),
			} {
				must.Succeed(t, err)
			}
			r := mustOpen(t, path)
			wantList(t, r, "vllm-0:8000@1000 a_b 1\n", "vllm-1:8000@1000 ", "vllm-0:8000@2000 a_b 2\n")
			if len(r.Warnings()) > 0 {
				t.Errorf("warnings %q", r.Warnings())
			}
			if err := w.Add("a", time.UnixMilli(1), nil, 0); !errors.Is(err, os.ErrClosed) {
				t.Errorf("Add after Close: %v", err)
			}
		})
	}
}

// TestAnArchiveKeepsHowLongAFailureTook: what is packed much later, and a directory, do not tell.
func TestAnArchiveKeepsHowLongAFailureTook(t *testing.T) {
	for _, name := range names {
		path := filepath.Join(t.TempDir(), name)
		w, err := Create(path)
		must.Succeed(t, err)
		took := []time.Duration{3 * time.Millisecond, 10 * time.Second, 0, time.Hour}
		for i, took := range took {
			must.Succeed(t, w.Add("a", time.UnixMilli(15_000*int64(i+1)), nil, took))
		}
		must.Succeed(t, w.Close())
		want := []time.Duration{took[0], took[1], 0, 0}
		if name == "rec" { // a directory
			want = make([]time.Duration, len(took))
		}
		var got []time.Duration
		must.Succeed(t, mustOpen(t, path).Scrapes(func(s Scrape) error {
			got = append(got, s.Took)
			return nil
		}))
		if !slices.Equal(got, want) {
			t.Errorf("%s: failures took %v, want %v", name, got, want)
		}
	}
}

func TestAPartHasNothingOfOthers(t *testing.T) {
	dir := t.TempDir()
	whole, part := filepath.Join(dir, "rec.tar.zst"), filepath.Join(dir, "part.tar.zst")
	w, err := Create(whole)
	must.Succeed(t, err)
	for _, target := range []string{"a b", "a_b", "c"} {
		must.Succeed(t, w.Add(target, time.UnixMilli(1000), []byte("of "+target), 0))
	}
	must.Succeed(t, w.SetMeta([]byte("of all")))
	must.Succeed(t, w.Close())
	f, err := os.Create(part)
	must.Succeed(t, err)
	defer f.Close()
	must.Succeed(t, CopyPart(f, whole, []string{w.Directory("a_b"), w.Directory("c")}))
	r := mustOpen(t, part)
	wantList(t, r, "a_b-2@1000 of a_b", "c@1000 of c")
	if len(r.Warnings()) > 0 {
		t.Errorf("warnings %q", r.Warnings())
	}
	text := must.ReadFile(t, whole)
	must.Succeed(t, os.WriteFile(whole, text[:len(text)-9], 0o600))
	if err := CopyPart(io.Discard, whole, []string{"c"}); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("of an archive that is cut off: %v", err)
	}
}

func TestAnInterruptedRecordingIsReadable(t *testing.T) {
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), name)
			w, err := Create(path)
			must.Succeed(t, err)
			defer w.Close()
			var want []string
			for i := range 20 {
				page := metricstest.Page(i)
				must.Succeed(t, w.Add("a", time.UnixMilli(int64(i)), page, 0))
				want = append(want, fmt.Sprintf("a@%d %s", i, page))
			}
			// The writer is still open: this is what is left when it is killed.
			r := mustOpen(t, path)
			wantList(t, r, want...)
		})
	}
}

func TestARecordingIsSmall(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rec.tar.zst")
	w, err := Create(path)
	must.Succeed(t, err)
	raw := 0
	for i := range 240 {
		page := metricstest.Page(1000 + 7*i)
		raw += len(page)
		must.Succeed(t, w.Add("a", time.Unix(int64(i), 0), page, 0))
	}
	must.Succeed(t, w.Close())
	info, err := os.Stat(path)
	must.Succeed(t, err)
	t.Logf("%d bytes of pages in %d", raw, info.Size())
	if info.Size() > int64(raw/15) {
		t.Errorf("%d bytes of pages take %d", raw, info.Size())
	}
}

func TestCreateDoesNotOverwrite(t *testing.T) {
	path := write(t, "rec.tar.zst", []byte("precious"))
	_, err := Create(path)
	if !errors.Is(err, os.ErrExist) && (err == nil || hint.Of(err) == "") {
		t.Errorf("error %v", err)
	}
	if b, _ := os.ReadFile(path); string(b) != "precious" {
		t.Errorf("the file became %q", b)
	}
	if _, err := Create(filepath.Join(t.TempDir(), "absent", "rec.tar")); err == nil {
		t.Error("a directory that does not exist: no error")
	}
	if _, err := Create(filepath.Join(t.TempDir(), "rec.zip")); hint.Of(err) == "" {
		t.Errorf("a format that is not written: error %v", err)
	}
}

func TestDirectoryName(t *testing.T) {
	for in, want := range map[string]string{
		"vllm-0:8000":                        "vllm-0:8000",
		"http://vllm-0:8000":                 "vllm-0:8000",
		"http://vllm-0:8000/metrics":         "vllm-0:8000",
		"https://u:secret@h/a/b/metrics?k=v": "h_a_b",
		"http://[::1]:8000/x":                "[::1]:8000_x",
		"..":                                 "_.",
		".hidden":                            "_hidden",
		"../../etc":                          "_._.._etc",
		"":                                   "target",
		"http://%zz":                         "target",
		"naïve name":                         "na_ve_name",
		strings.Repeat("a", 500):             strings.Repeat("a", 200),
	} {
		if got := DirectoryName(in); got != want {
			t.Errorf("DirectoryName(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestTargetsWithOneNameStayApart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rec.tar")
	w, err := Create(path)
	must.Succeed(t, err)
	for _, target := range []string{"http://a", "https://a", "http://a"} {
		must.Succeed(t, w.Add(target, time.UnixMilli(int64(len(w.used))), []byte(target), 0))
	}
	must.Succeed(t, w.Close())
	wantList(t, mustOpen(t, path), "a@0 http://a", "a-2@1 https://a", "a@2 http://a")
}

func TestWhatCouldNotBeReadIsNotWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rec.tar")
	w, err := Create(path)
	must.Succeed(t, err)
	for name, err := range map[string]error{
		"large notes":       w.SetMeta(make([]byte, maxNotes+1)),
		"a large page":      w.Add("a", time.UnixMilli(1), make([]byte, MaxEntry+1), 0),
		"a time before all": w.Add("a", time.Time{}, nil, 0),
		"a time after all":  w.Add("a", time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC), nil, 0),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	must.Succeed(t, errors.Join(w.Add("a", time.UnixMilli(2), []byte("x"), 0), w.Close()))
	wantList(t, mustOpen(t, path), "a@2 x")
}

func TestTargetsMayBeWrittenTogether(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rec.tar.zst")
	w, err := Create(path)
	must.Succeed(t, err)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for j := range 25 {
				if err := w.Add(fmt.Sprint("t", i), time.UnixMilli(int64(j)), []byte("x"), 0); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	must.Succeed(t, w.Close())
	if n := mustOpen(t, path).Len(); n != 100 {
		t.Errorf("%d scrapes", n)
	}
}
