package embedded

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/prometheus/prometheus/tsdb/fileutil"

	"github.com/sixty-dev/sixty/internal/base/hint"
)

// reserveSize is the size of the reserve: a file that is deleted when the disk is full, so that the monitor
// can go on. It is created on disks with ten times as much free space.
const reserveSize = 64 << 20

// freeBytes returns the free space of a file system for unprivileged users, 0 if it is unknown.
func freeBytes(dir string) int64 {
	var st syscall.Statfs_t
	if syscall.Statfs(dir, &st) != nil {
		return 0
	}
	return int64(st.Bavail) * int64(st.Bsize)
}

func reservePath(dir string) string { return filepath.Join(dir, "reserve") }

// keepReserve creates the reserve if there is enough free space and no reserve.
func keepReserve(dir string) error {
	if _, err := os.Stat(reservePath(dir)); err == nil || freeBytes(dir) < 10*reserveSize {
		return nil
	}
	f, err := os.OpenFile(reservePath(dir), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	err = fileutil.Preallocate(f, reserveSize, true)
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(reservePath(dir)))
	}
	return nil
}

// FreeReserve deletes the reserve of a named storage, and reports whether there was one.
func (s *Store) FreeReserve() bool {
	return s.temporary == "" && os.Remove(reservePath(s.db.Dir())) == nil
}

// KeepReserve recreates the reserve of a named storage if there is space, and reports whether it exists.
func (s *Store) KeepReserve() bool {
	err := keepReserve(s.db.Dir())
	if err == nil {
		_, err = os.Stat(reservePath(s.db.Dir()))
	}
	return err == nil
}

// restoreSegments restores log segments whose repair was interrupted: the repair moved the segment away and copied
// only a part, or nothing.
func restoreSegments(dir string) error {
	moved, err := filepath.Glob(filepath.Join(dir, "w[ab]l", "*.repair"))
	for _, path := range moved {
		err = errors.Join(err, os.Rename(path, strings.TrimSuffix(path, ".repair")))
	}
	return err
}

// checkRoom returns an error if the disk has no space to repair the logs of a storage, which copies a
// segment. It frees the reserve first.
func checkRoom(dir string) error {
	segments, err := filepath.Glob(filepath.Join(dir, "w[ab]l", "[0-9]*"))
	if err != nil {
		return err
	}
	need := int64(1 << 20)
	for _, path := range segments {
		if st, err := os.Stat(path); err == nil {
			need = max(need, st.Size()+1<<20)
		}
	}
	if freeBytes(dir) >= need || os.Remove(reservePath(dir)) == nil && freeBytes(dir) >= need {
		return nil
	}
	return hint.With(fmt.Errorf("%s: %w: %d MB are free, %d are needed to read the logs", dir, syscall.ENOSPC,
		freeBytes(dir)>>20, need>>20), "free some, then restart sixty")
}

// roomiestDir returns the directory for temporary files with the most free space.
func roomiestDir() string {
	return slices.MaxFunc([]string{os.TempDir(), "/dev/shm"}, func(a, b string) int {
		return cmp.Compare(freeBytes(a), freeBytes(b))
	})
}
