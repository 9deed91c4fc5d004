package command

import (
	"fmt"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"
)

// describe gives commands their words, from Markdown files: under a heading that is the line
// of use stand a sentence, examples, which are indented, and what else there is to know.
func describe(root *cobra.Command, texts fs.FS) {
	names, err := fs.Glob(texts, "*/*.md")
	for _, name := range names {
		var content []byte
		if content, err = fs.ReadFile(texts, name); err != nil {
			break
		}
		for section := range strings.SplitSeq("\n"+string(content), "\n# ") {
			if section = strings.TrimSpace(section); section == "" {
				continue
			}
			use, rest, _ := strings.Cut(section, "\n\n")
			c, _, err := root.Find(strings.Fields(use)[1:])
			if err != nil || c.Short != "" {
				panic(fmt.Sprintf("%s: %q belongs to no command, or to one that has a text", name, use))
			}
			if c.Use = use; c.HasParent() {
				c.Use = strings.TrimPrefix(use, c.Parent().CommandPath()+" ")
			}
			c.Short, rest, _ = strings.Cut(rest, "\n\n")
			if strings.HasPrefix(rest, "    ") {
				c.Example, rest, _ = strings.Cut(rest, "\n\n")
			}
			c.Long = rest
		}
	}
	if err != nil {
		panic(err) // the files are part of the program
	}
}

// readRemoved reads what to use in place of the commands and flags that were. A line has the words of the command line
// ("sixty VERB [COMMAND]", "sixty VERB [COMMAND] --FLAG" or, of values that are no longer one of a few,
// "sixty VERB [COMMAND] --FLAG VALUE"), a colon and the advice.
func readRemoved(texts fs.FS) map[string]string {
	content, err := fs.ReadFile(texts, "help/removed.txt")
	if err != nil {
		panic(err) // the file is part of the program
	}
	out := map[string]string{}
	for line := range strings.Lines(string(content)) {
		words, instead, _ := strings.Cut(strings.TrimSpace(line), ": ")
		out[words] = instead
	}
	return out
}
