package vllm

import (
	_ "embed"

	"github.com/sixty-dev/sixty/internal/catalog/engine"
)

//go:embed flags.csv
var flagsCSV string

// flags are the arguments of vllm serve, by release.
var flags = engine.ParseFlags(flagsCSV)
