// Command man writes files that a release's archives contain beside the program: a man page for each command, into
// bin/man, and completions for shells, into bin/completions.
//
//	go run ./internal/tools/man
package main

import (
	"errors"
	"log"
	"os"
	"path/filepath"

	"github.com/spf13/cobra/doc"

	"github.com/sixty-dev/sixty/internal/cli"
)

func main() {
	if err := write("bin"); err != nil {
		log.Fatal(err)
	}
}

// write writes both folders into a directory. Pages have no date, so the same sources give the same bytes.
func write(dir string) error {
	man, completions := filepath.Join(dir, "man"), filepath.Join(dir, "completions")
	if err := errors.Join(os.MkdirAll(man, 0o755), os.MkdirAll(completions, 0o755)); err != nil {
		return err
	}
	root := cli.Root()
	root.DisableAutoGenTag = true
	return errors.Join(
		doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "sixty", Manual: "sixty"}, man),
		root.GenBashCompletionFileV2(filepath.Join(completions, "sixty.bash"), true),
		root.GenZshCompletionFile(filepath.Join(completions, "_sixty")),
		root.GenFishCompletionFile(filepath.Join(completions, "sixty.fish"), true),
	)
}
