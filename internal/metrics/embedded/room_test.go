package embedded

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
)

// TestARepairThatWasCutOff: a kill -9 while the log is repaired, or a disk that was full then, loses nothing:
// the segment that the repair had moved away is read.
func TestARepairThatWasCutOff(t *testing.T) {
	dir := t.TempDir()
	cfg := Config{Dir: dir, Logger: slog.New(slog.DiscardHandler)}
	s, err := Open(cfg)
	must.Succeed(t, err)
	now := time.Now()
	_, err = s.Append(Target{Instance: "a:1"}, now, []byte("# TYPE x gauge\nx 7\n"), "text/plain", 0)
	must.Succeed(t, err)
	must.Succeed(t, s.Close())
	segment := filepath.Join(dir, "wal", "00000000")
	must.Succeed(t, os.Rename(segment, segment+".repair"))
	must.Succeed(t, os.WriteFile(segment, nil, 0o600))

	s, err = Open(cfg)
	must.Succeed(t, err)
	defer s.Close()
	v, err := s.Query(t.Context(), "x", now.Add(time.Second))
	if err != nil || len(v) != 1 || v[0].Value != 7 {
		t.Errorf("%v, %v: the past is lost", v, err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "wal", "*.repair")); len(left) > 0 || s.Full() != nil {
		t.Errorf("%q is left, full: %v", left, s.Full())
	}
}

// TestNoRoomForALog: where the disk has no room for a repair nothing is touched, and samples are in memory.
func TestNoRoomForALog(t *testing.T) {
	dir := t.TempDir()
	cfg := Config{Dir: dir, Logger: slog.New(slog.DiscardHandler)}
	s, err := Open(cfg)
	must.Succeed(t, err)
	must.Succeed(t, s.Close())
	segment := filepath.Join(dir, "wal", "00000000")
	must.Succeed(t, os.Truncate(segment, 1<<42)) // sparse: larger than any disk

	s, err = Open(cfg)
	must.Succeed(t, err)
	now := time.Now()
	_, err = s.Append(Target{Instance: "a:1"}, now, []byte("# TYPE x gauge\nx 7\n"), "text/plain", 0)
	must.Succeed(t, err)
	if v, err := s.Query(t.Context(), "x", now.Add(time.Second)); err != nil || len(v) != 1 || s.Full() == nil {
		t.Errorf("%v, %v, full: %v", v, err, s.Full())
	}
	must.Succeed(t, s.Close())
	if st, err := os.Stat(segment); err != nil || st.Size() != 1<<42 {
		t.Errorf("the log was touched: %v, %v", st, err)
	}
}
