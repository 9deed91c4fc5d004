// Package testdata holds config.json files of public models, for tests only.
package testdata

import "embed"

// Files holds the models by their files' names. Tests of other packages read them from here: with -trimpath a test
// cannot find another package's folder by the path of its source.
//
//go:embed *.json
var Files embed.FS
