package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// completeWord is the last word of a command line that a shell wants completed
// (etc/completion). urfave's own completion runs the command where "--" stands before.
const completeWord = "--generate-bash-completion"

// complete prints the completions of the last of these words, each with
// what it does behind a tab. It runs nothing.
func complete(w io.Writer, app *cli.App, words []string) {
	if len(words) == 0 {
		words = []string{""}
	}
	before, begun := words[:len(words)-1], words[len(words)-1]
	if slices.Contains(before, "--") {
		return
	}
	commands, flags := app.Commands, app.Flags
	for i, word := range before {
		if i > 0 && takesValue(flags, before[i-1]) {
			continue
		}
		if c := find(commands, word); c != nil {
			if c.SkipFlagParsing {
				return
			}
			commands, flags = c.Subcommands, c.Flags
		} else if !strings.HasPrefix(word, "-") {
			commands = nil // an argument
		}
	}
	if len(before) > 0 && takesValue(flags, before[len(before)-1]) {
		return
	}
	offer := func(word, usage string) {
		if strings.HasPrefix(word, begun) {
			fmt.Fprintf(w, "%s\t%s\n", word, usage)
		}
	}
	if strings.HasPrefix(begun, "-") {
		for _, f := range flags {
			_, usage, _ := strings.Cut(f.String(), "\t")
			offer(dashed(f.Names()[0]), usage)
		}
		offer("--help", "explain the command")
		return
	}
	for _, c := range commands {
		offer(c.Name, c.Usage)
	}
}
