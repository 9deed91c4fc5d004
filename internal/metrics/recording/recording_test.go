package recording

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"go.uber.org/goleak"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/base/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// member is a file in an archive or directory.
type member struct {
	name, body string
	kind       byte // a tar type, a plain file when 0
}

func tarOf(t testing.TB, members ...member) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, m := range members {
		h := &tar.Header{Name: m.name, Size: int64(len(m.body)), Mode: 0o600, Typeflag: m.kind}
		if m.kind == tar.TypeSymlink || m.kind == tar.TypeLink {
			h.Linkname = "/etc/passwd"
		}
		if m.kind == 0 {
			h.Typeflag = tar.TypeReg
		}
		must.Succeed(t, w.WriteHeader(h))
		if _, err := io.WriteString(w, m.body); err != nil {
			t.Fatal(err)
		}
	}
	must.Succeed(t, w.Close())
	return b.Bytes()
}

func zip(t testing.TB, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	z.Write(b)
	must.Succeed(t, z.Close())
	return out.Bytes()
}

func zst(t testing.TB, b []byte) []byte {
	t.Helper()
	z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	must.Succeed(t, err)
	defer z.Close()
	return z.EncodeAll(b, nil)
}

func write(t testing.TB, name string, b []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	must.Succeed(t, os.WriteFile(path, b, 0o600))
	return path
}

func dirOf(t testing.TB, members ...member) string {
	t.Helper()
	root := filepath.Join(t.TempDir(), "rec")
	for _, m := range members {
		path := filepath.Join(root, m.name)
		must.Succeed(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must.Succeed(t, os.WriteFile(path, []byte(m.body), 0o600))
	}
	return root
}

func mustOpen(t testing.TB, path string) *Recording {
	t.Helper()
	r, err := Open(t.Context(), path)
	must.Succeed(t, err)
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// list returns a recording's scrapes as "target@milliseconds body".
func list(t testing.TB, r *Recording) []string {
	t.Helper()
	var got []string
	if err := r.Scrapes(func(s Scrape) error {
		got = append(got, fmt.Sprintf("%s@%d %s", s.Target, s.At.UnixMilli(), s.Body))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return got
}

func wantList(t testing.TB, r *Recording, want ...string) {
	t.Helper()
	must.Equal(t, want, list(t, r))
}

var two = []member{
	{name: "b/2000.prom", body: "b2"},
	{name: "a/1000.prom", body: "a1"},
	{name: "b/1000.prom"},
	{name: "meta.json", body: `{"note":1,"targets":[{"url":"http://b:80/metrics"},{"url":"a","version":"0.32.0","models":[{"id":"m","max_model_len":4096}]}]}`},
	{name: "a/3000.prom", body: "a3"},
}

var twoListed = []string{"a@1000 a1", "b@1000 ", "b@2000 b2", "a@3000 a3"}

func TestEveryContainerGivesTheSameScrapes(t *testing.T) {
	archive := tarOf(t, two...)
	var nested []member
	for _, m := range two {
		nested = append(nested, member{name: "./rec/" + m.name, body: m.body})
	}
	for name, path := range map[string]string{
		"a directory":                        dirOf(t, two...),
		"a tar":                              write(t, "x.tar", archive),
		"a gzipped tar":                      write(t, "x.tar.gz", zip(t, archive)),
		"a tar in zstd":                      write(t, "x.tar.zst", zst(t, archive)),
		"a tar in zstd with another ending":  write(t, "x.dat", zst(t, archive)),
		"a tar of a directory":               write(t, "x.tgz", zip(t, tarOf(t, nested...))),
		"a directory of a directory":         filepath.Dir(dirOf(t, two...)),
		"a tar with directories and headers": write(t, "x.tar", tarOf(t, append([]member{{name: "a/", kind: tar.TypeDir}}, two...)...)),
	} {
		t.Run(name, func(t *testing.T) {
			r := mustOpen(t, path)
			wantList(t, r, twoListed...)
			wantList(t, r, twoListed...) // again
			must.Equal(t, []string{"a", "b"}, r.Targets())
			want := Noted{URL: "a", Version: "0.32.0", Models: []Model{{ID: "m", MaxModelLen: 4096}}}
			must.Equal(t, []Noted{want, {}}, []Noted{r.Noted("a"), r.Noted("b")})
			if first, last := r.Times(); first.UnixMilli() != 1000 || last.UnixMilli() != 3000 || r.Len() != 4 {
				t.Errorf("%d scrapes from %s to %s", r.Len(), first, last)
			}
			if w := r.Warnings(); len(w) > 0 {
				t.Errorf("warnings %q", w)
			}
		})
	}
}

func TestTargetsAreNamedAfterTheirDirectories(t *testing.T) {
	for name, tc := range map[string]struct {
		members []member
		want    []string
	}{
		"two targets below a directory":       {[]member{{name: "x/a/1.prom"}, {name: "x/b/1.prom"}}, []string{"a", "b"}},
		"one target below a directory":        {[]member{{name: "x/a/1.prom"}}, []string{"a"}},
		"two racks with a target of one name": {[]member{{name: "x/a/t/1.prom"}, {name: "x/b/t/1.prom"}}, []string{"a/t", "b/t"}},
		"pages without a directory":           {[]member{{name: "1.prom"}}, []string{"rec"}},
		"an address":                          {[]member{{name: "[::1]:8000/1.prom"}}, []string{"[::1]:8000"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := mustOpen(t, write(t, "rec.tar", tarOf(t, tc.members...)))
			must.Equal(t, tc.want, r.Targets())
		})
	}
	r := mustOpen(t, dirOf(t, member{name: "1.prom"}))
	must.Equal(t, []string{"rec"}, r.Targets())
}

func TestOtherFilesArePassedOver(t *testing.T) {
	members := []member{
		{name: "a/1795220770159.prom", body: "x"},
		{name: "a/1795220771.prom", body: "seconds"},
		{name: "a/1795220772000000.prom", body: "microseconds"},
		{name: "a/1795220773000000000.prom", body: "nanoseconds"},
		{name: "a/now.prom"},
		{name: "a/1.txt"},
		{name: "README"},
		{name: "a/-1.prom"},
		{name: "a/99999999999999999.prom"},
		{name: "a/._1795220770159.prom"},
		{name: "__MACOSX/a/1.prom"},
		{name: ".git/1.prom"},
		{name: "a/.DS_Store"},
	}
	for name, path := range map[string]string{"a directory": dirOf(t, members...), "an archive": write(t, "x.tar", tarOf(t, members...))} {
		t.Run(name, func(t *testing.T) {
			r := mustOpen(t, path)
			wantList(t, r, "a@1795220770159 x", "a@1795220771000 seconds", "a@1795220772000 microseconds", "a@1795220773000 nanoseconds")
			w := strings.Join(r.Warnings(), "\n")
			if !strings.Contains(w, "skipped 5 files") || !strings.Contains(w, "1 file names with ten digits") {
				t.Errorf("warnings %q", w)
			}
		})
	}
}

func TestTheLastFileOfATargetAndTimeCounts(t *testing.T) {
	r := mustOpen(t, write(t, "x.tar", tarOf(t, member{name: "a/1.prom", body: "old"}, member{name: "b/1.prom", body: "b"}, member{name: "a/1.prom", body: "new"},
		member{name: "meta.json", body: "1"}, member{name: "meta.json", body: "2"}, member{name: "a/meta.json", body: "3"})))
	wantList(t, r, "a@1 new", "b@1 b")
	if w := r.Warnings(); len(w) != 1 || !strings.Contains(w[0], "skipped 1 duplicate") {
		t.Errorf("warnings %q", w)
	}
}

func TestASinglePageIsARecording(t *testing.T) {
	r := mustOpen(t, write(t, "1795220770159.prom", []byte("a_b 1\n")))
	wantList(t, r, "1795220770159@1795220770159 a_b 1\n")

	path := write(t, "vllm.metrics.txt", []byte("a_b 1\n"))
	at := time.Unix(1_700_000_000, 0)
	must.Succeed(t, os.Chtimes(path, at, at))
	r = mustOpen(t, path)
	wantList(t, r, "vllm.metrics@1700000000000 a_b 1\n")
	if len(r.Warnings()) != 1 {
		t.Errorf("warnings %q", r.Warnings())
	}
}

func TestOpenRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		path        string
		err, tryOut string
	}{
		"nothing":                     {filepath.Join(t.TempDir(), "absent"), "no such file", ""},
		"an empty directory":          {t.TempDir(), "no scrapes", "TARGET/UNIX_MILLISECONDS.prom"},
		"pages with other names":      {dirOf(t, member{name: "a/one.txt"}, member{name: "a/two.txt"}), `2 files with other names, such as "a/one.txt"`, "TARGET/UNIX_MILLISECONDS.prom"},
		"an empty archive":            {write(t, "x.tar", tarOf(t)), "", ""},
		"an archive of nothing":       {write(t, "x.tgz", zip(t, tarOf(t))), "no scrapes", "TARGET/UNIX_MILLISECONDS.prom"},
		"some other file":             {write(t, "x.pdf", []byte("%PDF")), "neither", ".tar.zst"},
		"an empty file":               {write(t, "x.tar", nil), "neither", ".tar.zst"},
		"a gzipped text":              {write(t, "x.tgz", zip(t, []byte(strings.Repeat("hello", 1000)))), "damaged", "tar -t"},
		"a damaged zstd":              {write(t, "x.tar.zst", append([]byte{0x28, 0xb5, 0x2f, 0xfd}, "nonsense and more of it"...)), "damaged", "tar -t"},
		"a name that leaves":          {write(t, "x.tar", tarOf(t, member{name: "a/../../1.prom"})), "leaves the recording", "do not trust"},
		"an absolute name":            {write(t, "x.tar", tarOf(t, member{name: "/a/1.prom"})), "is absolute", "do not trust"},
		"an absolute name of Windows": {write(t, "x.tar", tarOf(t, member{name: `C:\a\1.prom`})), "is absolute", "do not trust"},
		"a symbolic link":             {write(t, "x.tar", tarOf(t, member{name: "a/1.prom", kind: tar.TypeSymlink})), "not a plain file", "without links"},
		"a hard link":                 {write(t, "x.tar", tarOf(t, member{name: "a/1.prom", kind: tar.TypeLink})), "not a plain file", "without links"},
		"a device":                    {write(t, "x.tar", tarOf(t, member{name: "a/1.prom", kind: tar.TypeChar})), "not a plain file", "without links"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := Open(t.Context(), tc.path)
			if err == nil {
				r.Close()
				t.Fatal("no error")
			}
			if !strings.Contains(err.Error(), tc.err) || !strings.Contains(err.Error(), tc.path) {
				t.Errorf("error %q does not name %q and the path", err, tc.err)
			}
			if !strings.Contains(hint.Of(err), tc.tryOut) {
				t.Errorf("hint %q does not name %q", hint.Of(err), tc.tryOut)
			}
		})
	}
}

func TestLinksInADirectoryArePassedOver(t *testing.T) {
	root := dirOf(t, member{name: "a/1.prom", body: "x"})
	if err := os.Symlink("1.prom", filepath.Join(root, "a", "2.prom")); err != nil {
		t.Skip(err)
	}
	r := mustOpen(t, root)
	wantList(t, r, "a@1 x")
	if len(r.Warnings()) != 1 {
		t.Errorf("warnings %q", r.Warnings())
	}
}

func TestNotesOfASingleServerAreItsOwn(t *testing.T) {
	page := member{name: "r0/1.prom", body: "a_b 1\n"}
	for body, want := range map[string]string{
		`{"targets":[{"url":"http://10.0.0.1:8000/metrics","version":"0.32.0"}]}`: "0.32.0", // its directory was renamed
		`{"targets":["r0"]}`:                             "",
		`"notes of somebody"`:                            "",
		strings.Repeat(" ", maxNotes) + `{"targets":[]}`: "",
	} {
		r := mustOpen(t, dirOf(t, page, member{name: "meta.json", body: body}))
		if got := r.Noted("r0").Version; got != want || (len(r.Warnings()) > 0) != (len(body) > maxNotes) {
			t.Errorf("%.60s: version %q, warnings %q", body, got, r.Warnings())
		}
	}
}

func TestLimits(t *testing.T) {
	members := []member{{name: "a/1.prom", body: "12345"}, {name: "a/2.prom", body: "12345"}, {name: "a/3.prom", body: "12345"}}
	for name, path := range map[string]string{"a directory": dirOf(t, members...), "an archive": write(t, "x.tar.gz", zip(t, tarOf(t, members...)))} {
		for _, tc := range []struct {
			lim limits
			err string
		}{
			{limits{total: 15, entry: 5, entries: 3}, ""},
			{limits{total: 14, entry: 5, entries: 3}, "more than 14 bytes, decompressed, at a/3.prom"},
			{limits{total: 15, entry: 4, entries: 3}, "a/1.prom is larger than 4 bytes"},
			{limits{total: 15, entry: 5, entries: 2}, "more than 2 files"},
		} {
			r, err := openWithin(t.Context(), path, tc.lim)
			if tc.err == "" && err != nil || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err) || hint.Of(err) == "") {
				t.Errorf("%s, %+v: error %v with hint %q, want %q", name, tc.lim, err, hint.Of(err), tc.err)
			}
			if err == nil {
				r.Close()
			}
		}
	}
	// Headers alone take room, too.
	var many []member
	for range 100 {
		many = append(many, member{name: "a/", kind: tar.TypeDir})
	}
	if _, err := openWithin(t.Context(), write(t, "x.tar", tarOf(t, many...)), limits{total: 10, entry: 5, entries: 2}); err == nil || !strings.Contains(err.Error(), "more than 10 bytes") {
		t.Errorf("an archive of headers: %v", err)
	}
}

func TestACutOffArchiveGivesWhatIsBeforeTheCut(t *testing.T) {
	archive := tarOf(t, member{name: "a/1.prom", body: "one"}, member{name: "a/2.prom", body: strings.Repeat("two", 1000)})
	for name, path := range map[string]string{
		"a tar":         write(t, "x.tar", archive[:2500]),
		"a gzipped tar": write(t, "x.tar.gz", zip(t, archive[:2500])),
		"a tar in zstd": write(t, "x.tar.zst", zst(t, archive[:2500])),
	} {
		t.Run(name, func(t *testing.T) {
			r := mustOpen(t, path)
			wantList(t, r, "a@1 one")
			if w := r.Warnings(); len(w) != 1 || !strings.Contains(w[0], "after 1 scrapes") {
				t.Errorf("warnings %q", w)
			}
		})
	}
}

func TestManyBytesWaitOnDisk(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	path := write(t, "x.tar.zst", zst(t, tarOf(t, member{name: "a/1.prom", body: "11111"}, member{name: "a/2.prom", body: "22222"},
		member{name: "a/3.prom", body: "33333"}, member{name: "a/4.prom", body: "4"}, member{name: "a/5.prom", body: "55555"})))
	r, err := openWithin(t.Context(), path, limits{total: 100, entry: 10, entries: 10, memory: 12})
	must.Succeed(t, err)
	wantList(t, r, "a@1 11111", "a@2 22222", "a@3 33333", "a@4 4", "a@5 55555")
	if left, _ := os.ReadDir(os.Getenv("TMPDIR")); len(left) != 1 {
		t.Errorf("%d temporary files", len(left))
	}
	r.Close()
	if left, _ := os.ReadDir(os.Getenv("TMPDIR")); len(left) != 0 {
		t.Errorf("%d temporary files after Close", len(left))
	}
}

func TestScrapesEndsWithTheCallersError(t *testing.T) {
	r := mustOpen(t, write(t, "x.tar", tarOf(t, two...)))
	n := 0
	if err := r.Scrapes(func(Scrape) error { n++; return io.ErrClosedPipe }); err != io.ErrClosedPipe || n != 1 {
		t.Errorf("%d calls, error %v", n, err)
	}
}

// FuzzOpen opens arbitrary bytes as every kind of file.
func FuzzOpen(f *testing.F) {
	archive := tarOf(f, two...)
	f.Add(archive)
	f.Add(zip(f, archive))
	f.Add(zst(f, archive))
	f.Add(archive[:1700])
	f.Add(tarOf(f, member{name: "a/1.prom", kind: tar.TypeSymlink}))
	f.Add(tarOf(f, member{name: strings.Repeat("a/", 200) + "1.prom"}))
	f.Add([]byte("a_b 1\n"))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, b []byte) {
		path := filepath.Join(dir, fmt.Sprint(os.Getpid())+".prom")
		must.Succeed(t, os.WriteFile(path, b, 0o600))
		r, err := openWithin(t.Context(), path, limits{total: 1 << 20, entry: 1 << 16, entries: 100})
		if err != nil {
			return
		}
		defer r.Close()
		last, n := time.Time{}, 0
		if err := r.Scrapes(func(s Scrape) error {
			if s.At.Before(last) {
				t.Errorf("%s after %s", s.At, last)
			}
			if s.Target == "" || strings.Contains(s.Target, "..") && strings.Contains("/"+s.Target+"/", "/../") {
				t.Errorf("target %q", s.Target)
			}
			last, n = s.At, n+1
			return nil
		}); err != nil {
			t.Error(err)
		}
		if n == 0 || n != r.Len() {
			t.Errorf("%d scrapes, Len says %d", n, r.Len())
		}
	})
}
