// Package fileio reads files of a bounded size, and writes files atomically: under a temporary name first. Errors name
// the file.
package fileio

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/sixty-dev/sixty/internal/base/hint"
)

// Read reads a whole file of at most limit bytes.
func Read(path string, limit int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, errors.Unwrap(err))
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if int64(len(b)) > limit {
		return nil, fmt.Errorf("read %s: over %d bytes", path, limit)
	}
	return b, nil
}

// Write replaces a file by what fill writes. Everybody may read it.
func Write(path string, fill func(io.Writer) error) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("create %s: %w", path, err)
	}
	if err := fill(tmp); err != nil {
		return errors.Join(err, tmp.Close(), os.Remove(tmp.Name()))
	}
	if err := moveIntoPlace(tmp, path, 0o644); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// moveIntoPlace closes a temporary file and gives it its name, or removes it.
func moveIntoPlace(tmp *os.File, path string, mode os.FileMode) error {
	err := tmp.Chmod(mode)
	if err == nil {
		err = tmp.Sync()
	}
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	SyncDir(filepath.Dir(path))
	return nil
}

// Move gives a finished file its name.
func Move(tmp, path string) error {
	file, err := os.OpenFile(tmp, os.O_RDWR, 0)
	if err != nil {
		return StripOp(err)
	}
	info, err := file.Stat()
	if err != nil {
		return errors.Join(StripOp(err), file.Close())
	}
	return StripOp(moveIntoPlace(file, path, info.Mode().Perm()))
}

// SyncDir syncs a directory, so that the names in it survive a loss of power. File systems that cannot sync a directory
// keep the names after their next sync.
func SyncDir(dir string) {
	if d, err := os.Open(dir); err == nil {
		_ = d.Sync()
		d.Close()
	}
}

// A File is a file that WriteAll writes to a directory.
type File struct {
	Path    string // with slashes, below the directory
	Content []byte
}

// WriteAll writes files to a directory and returns their names. It renames them only after all are written, so that a
// full disk changes none.
func WriteAll(dir string, list []File) (names []string, err error) {
	var done []string // temporary names
	defer func() {
		for _, t := range done {
			os.Remove(t)
		}
	}()
	for _, file := range list {
		name := filepath.Join(dir, filepath.FromSlash(file.Path))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return nil, err
		}
		tmp := filepath.Join(filepath.Dir(name), "."+filepath.Base(name)+".new")
		done, names = append(done, tmp), append(names, name)
		if err := os.WriteFile(tmp, file.Content, 0o644); err != nil {
			return nil, err
		}
	}
	for i, name := range names {
		if err := os.Rename(done[i], name); err != nil {
			return names[:i], err
		}
	}
	return names, nil
}

// Replace replaces the content of a file that is to be repaired. It keeps the permissions, and follows a link to its
// target.
func Replace(path string, data []byte) error {
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		return fmt.Errorf("repair %s: %w", path, StripOp(err))
	}
	info, err := os.Stat(target)
	if err != nil {
		return fmt.Errorf("repair %s: %w", path, StripOp(err))
	}
	if old, err := os.ReadFile(target); err == nil && bytes.Equal(old, data) {
		return nil
	}
	tmp, err := os.CreateTemp(filepath.Dir(target), "."+filepath.Base(target)+".*")
	if err != nil {
		return hint.With(fmt.Errorf("repair %s: %w", path, StripOp(err)), "make its directory writable")
	}
	if _, err = tmp.Write(data); err != nil {
		err = errors.Join(err, tmp.Close(), os.Remove(tmp.Name()))
	} else {
		err = moveIntoPlace(tmp, target, info.Mode().Perm())
	}
	if err != nil {
		return fmt.Errorf("repair %s: %w", path, StripOp(err))
	}
	return nil
}

// StripOp removes the name of the system call from an error of the operating system.
func StripOp(err error) error {
	var p *os.PathError
	if errors.As(err, &p) {
		return fmt.Errorf("%s: %w", p.Path, p.Err)
	}
	return err
}
