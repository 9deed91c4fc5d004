package embedded

import (
	"log/slog"
	"os"
	"path/filepath"

	"github.com/prometheus/prometheus/tsdb"
)

// damagedDir contains blocks that could not be opened.
const damagedDir = "damaged"

// setAsideDamaged moves blocks that cannot be opened to damagedDir, so that the storage starts without them.
func setAsideDamaged(dir string, log *slog.Logger) error {
	metas, err := filepath.Glob(filepath.Join(dir, "*", "meta.json"))
	if err != nil {
		return err
	}
	for _, meta := range metas {
		path := filepath.Dir(meta)
		block, damage := tsdb.OpenBlock(nil, path, nil, nil)
		if damage == nil {
			damage = block.Close()
		}
		if damage == nil {
			continue
		}
		to := filepath.Join(dir, damagedDir, filepath.Base(path))
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return err
		}
		if err := os.Rename(path, to); err != nil {
			return err
		}
		if log != nil {
			log.Error("a block of samples is damaged and was set aside: its samples are missing", "block", to, "err",
				damage)
		}
	}
	return nil
}
