package cli

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

// Exit codes.
const (
	ExitOK          = 0   // nothing found, or done
	ExitFound       = 1   // something was found, or is not as good as was asked
	ExitCannotCheck = 2   // bad input, unreachable, no data, too little time
	ExitInterrupted = 130 // by ctrl-C or SIGTERM, whatever was said until then
)

// Ends of a command that did its work and has said so.
var (
	errFound      = errors.New("found")       // something
	errCannotTell = errors.New("cannot tell") // whether there is something
)

// exits are what the codes mean: the one table of help and of README.md, which a test
// holds against what the commands do.
var exits = []struct {
	code    int
	verbs   []string // none: all of them
	meaning string
}{
	{ExitOK, nil, "done; nothing found"},
	{ExitFound, []string{"diagnose", "audit", "profile"}, "a finding of at least `--fail-on`: page, ticket (the default) or info"},
	{ExitFound, []string{"profile diff"}, "a step takes longer by more than `--gate`, and not by chance"},
	{ExitFound, []string{"bench"}, "an `--assert` does not hold, or no level of a `--search` meets the objective"},
	{ExitFound, []string{"bench compare"}, "something became worse"},
	{ExitFound, []string{"tune"}, "the targets cannot be met, or the model does not fit"},
	{ExitFound, []string{"simulate"}, "no request is served"},
	{ExitFound, []string{"demo"}, "a diagnosis was not what had been staged"},
	{ExitCannotCheck, nil, "could not check: bad input, nobody answers, no metrics of an inference server, not enough data"},
	{ExitCannotCheck, []string{"diagnose"}, "not done within `--timeout`"},
	{ExitCannotCheck, []string{"simulate"}, "the simulation of the servers as they are misses what was measured of them"},
	{ExitCannotCheck, []string{"bench"}, "the generator itself spoiled the result"},
	{ExitInterrupted, nil, "interrupted by ctrl-C or SIGTERM, whatever was said until then"},
	{ExitOK, []string{"record", "simulate --serve"}, "ended by ctrl-C, which is the usual way to end them"},
}

const exitTopic = "exit-codes"

// newExitTopic is the page of help about the codes of all verbs.
func newExitTopic() *cobra.Command {
	return &cobra.Command{Use: exitTopic, Short: "What the exit codes mean, in all verbs"}
}

// codesOf are the rows of help about a command's codes: none where it has no codes of
// its own, and all of them under the topic.
func codesOf(path string) [][2]string {
	verb, _, _ := strings.Cut(path, " ")
	var rows [][2]string
	special := false
	for _, x := range exits {
		mine := slices.ContainsFunc(x.verbs, func(v string) bool { return v == path || v == verb+" --serve" })
		text := strings.ReplaceAll(x.meaning, "`", "")
		switch {
		case path == exitTopic && x.verbs != nil:
			text = strings.Join(x.verbs, ", ") + ": " + text
		case !mine && x.verbs != nil && path != exitTopic:
			continue
		}
		special = special || mine
		rows = append(rows, [2]string{strconv.Itoa(x.code), text})
	}
	if !special && path != exitTopic {
		return nil
	}
	return rows
}

// ExitTable is the table in Markdown.
func ExitTable() string {
	var b strings.Builder
	b.WriteString("| exit code | of | meaning |\n|---|---|---|\n")
	for _, x := range exits {
		of := "every verb"
		if x.verbs != nil {
			of = "`" + strings.Join(x.verbs, "`, `") + "`"
		}
		fmt.Fprintf(&b, "| %d | %s | %s |\n", x.code, of, x.meaning)
	}
	return b.String()
}

// ExitRows are the rows of the table by code and verb, for the test of what the commands
// do; the verb is "" for all of them.
func ExitRows() map[string]string {
	out := map[string]string{}
	for _, x := range exits {
		for _, v := range append(slices.Clone(x.verbs), "")[:max(len(x.verbs), 1)] {
			out[fmt.Sprintf("%d %s", x.code, v)] = x.meaning
		}
	}
	return out
}
