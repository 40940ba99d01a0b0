package cli

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/cpuguy83/go-md2man/v2/md2man"
	"github.com/google/go-cmp/cmp"
	"github.com/urfave/cli/v2"

	"slurmprio/priod/config"
)

var update = flag.Bool("update", false, "write etc/man/priod.8 and etc/explain.schema.json anew")

// manPage is the man page in Markdown, its verbs and options from the command tree.
func manPage() string {
	var b strings.Builder
	app := App("")
	b.WriteString(`priod 8 "" slurmprio "System Manager's Manual"
==============================

# NAME
priod - ` + app.Usage + `

# SYNOPSIS
**priod** [**--config** *FILE*] *COMMAND* [*OPTIONS*] [*ARGUMENTS*]

# DESCRIPTION
**priod run** is the daemon: in each cycle it reads the queue of a Slurm cluster, decides which pending jobs go first,
and writes that back with **scontrol**(1). All other commands look, explain or undo. Jobs say what they are by the options
of **sbatchwrap**(1). **priod --help** lists the commands, **priod** *COMMAND* **--help** explains one.

# OPTIONS
Options of a command may stand before or behind its arguments.

`)
	manFlags(&b, app.Flags)
	b.WriteString("# COMMANDS\n")
	manCommands(&b, "priod", app.Commands)
	fmt.Fprintf(&b, `# EXIT STATUS
**0** done, **1** a problem was found or met, **2** wrong usage or a configuration that cannot be right.

# FILES
*%s*
: the configuration; *priod.toml.example* beside it has every key, with its default and what it does

*/var/lib/priod*
: the state folder (state.dir): the database, the undo journal, the pause mark

*/run/priod/wake*
: where TE submissions tell the daemon to look at once (wake.listen)

# ENVIRONMENT
**PRIOD_CONFIG**
: the configuration to use, as **--config**

**SLURM_CONF**
: the slurm.conf of Slurm's commands, where the configuration names none (slurm.conf)

# SEE ALSO
**sbatchwrap**(1), **squeue**(1), **sprio**(1), **scontrol**(1), **slurm.conf**(5)
`, config.DefaultPath)
	return b.String()
}

// manCommands writes the commands that do something, and so those below the others.
func manCommands(b *strings.Builder, path string, commands []*cli.Command) {
	for _, c := range commands {
		name := path + " " + c.Name
		if len(c.Subcommands) > 0 {
			if own := slices.DeleteFunc(slices.Clone(c.Flags), func(f cli.Flag) bool { return f == cli.HelpFlag }); len(own) > 0 {
				fmt.Fprintf(b, "## %s\n%s.\n\n", name, plain(strings.ToUpper(c.Usage[:1])+c.Usage[1:]))
				manFlags(b, own)
			}
			manCommands(b, name, c.Subcommands)
			continue
		}
		fmt.Fprintf(b, "## %s\n%s.\n\n", strings.TrimSpace(name+" "+c.ArgsUsage), plain(strings.ToUpper(c.Usage[:1])+c.Usage[1:]))
		example := false
		for line := range strings.Lines(c.Description) {
			if now := strings.HasPrefix(line, "    "); now != example {
				example = now
				b.WriteString("\n")
			}
			if !example {
				line = plain(line)
			}
			b.WriteString(line)
		}
		b.WriteString("\n\n")
		manFlags(b, c.Flags)
	}
}

func manFlags(b *strings.Builder, flags []cli.Flag) {
	for _, f := range flags {
		if f == cli.HelpFlag {
			continue
		}
		left, right, _ := strings.Cut(strings.ReplaceAll(f.String(), "\\n", " "), "\t") // as --help shows it
		fmt.Fprintf(b, "**%s**\n: %s\n\n", plain(left), plain(right))
	}
}

// plain keeps Markdown from reading text.
func plain(s string) string {
	return strings.NewReplacer("*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "<", `\<`).Replace(s)
}

// The man page is made from the command tree; make man writes it.
func TestManPage(t *testing.T) {
	const path = "../../etc/man/priod.8"
	page := md2man.Render([]byte(manPage()))
	if *update {
		if err := os.WriteFile(path, page, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(have), string(page)); diff != "" {
		t.Errorf("etc/man/priod.8 is not what the command tree says; run make man\n%s", diff)
	}
}
