package page

import "io/fs"

// Built reports whether this program has the page's bundle.
func Built() bool {
	_, err := fs.Stat(dist, "dist/manifest.json")
	return err == nil
}
