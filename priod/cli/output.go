package cli

import (
	"fmt"
	"io"
	"os"
)

// output is what a verb prints to: it keeps the first error, so that no verb has to look at each line, and what is
// lost on a full disk is told once, in Run.
type output struct {
	to  io.Writer
	err error
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.to.Write(p)
	if err != nil && o.err == nil {
		o.err = err
	}
	return n, err
}

// lost says that not all of the output arrived; nil: it did.
func (o *output) lost() error {
	if o.err == nil {
		return nil
	}
	return fmt.Errorf("the command is done, but its output is incomplete: %w", o.err)
}

// file is where a verb prints to when that is a file or a terminal.
func file(w io.Writer) (*os.File, bool) {
	if o, kept := w.(*output); kept {
		w = o.to
	}
	f, ok := w.(*os.File)
	return f, ok
}
