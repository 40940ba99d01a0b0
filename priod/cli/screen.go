package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"
)

// everyFlag is --every of a verb that shows a screen, and validEvery checks it.
func everyFlag() cli.Flag {
	return &cli.DurationFlag{Name: "every", Value: 5 * time.Second, Usage: "look again after `TIME`, 1s or more"}
}

func validEvery(c *cli.Context) error {
	if d := c.Duration("every"); d < time.Second {
		return usagef("%s: --every %s: want 1s or more", c.Command.Name, d)
	}
	return nil
}

// onScreen shows what show prints, repeatedly, until SIGINT or SIGTERM. Where the output is
// no terminal it shows it once.
func onScreen(c *cli.Context, show func(ctx context.Context, w io.Writer, rows int) error) error {
	f, ok := file(c.App.Writer)
	if !ok || !isTerminal(f) {
		return show(c.Context, c.App.Writer, 0)
	}
	ctx, stop := signal.NotifyContext(c.Context, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	defer signal.Stop(resized)
	fmt.Fprint(f, "\x1b[?1049h\x1b[?25l") // the terminal's other screen, without a cursor
	defer fmt.Fprint(f, "\x1b[?25h\x1b[?1049l")
	tick := time.NewTicker(c.Duration("every"))
	defer tick.Stop()
	for {
		columns, rows := 80, 24
		if size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); err == nil && size.Col > 0 && size.Row > 0 {
			columns, rows = int(size.Col), int(size.Row)
		}
		var page bytes.Buffer
		if err := show(ctx, &page, rows); err != nil && ctx.Err() == nil {
			return err
		}
		if _, err := io.WriteString(f, frame(page.String(), columns, rows)); err != nil {
			return errors.Join(err, ctx.Err())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-resized:
		}
	}
}

// frame is a page cut to the size of a terminal, drawn over the one before.
func frame(page string, columns, rows int) string {
	lines := strings.Split(strings.TrimSuffix(page, "\n"), "\n")
	var b strings.Builder
	b.WriteString("\x1b[H")
	for i, line := range lines[:min(len(lines), rows)] {
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString(text.Trim(line, columns) + "\x1b[K")
	}
	return b.String() + "\x1b[J"
}
