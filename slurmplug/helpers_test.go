package slurmplug

import (
	"context"
	"os"
	"path/filepath"
	"testing"
)

// recording is what a real Slurm said (testdata/record.sh).
func recording(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "22.05", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// runnerFunc is a Runner for what a real Slurm cannot be made to do.
type runnerFunc func(Command) (Output, error)

func (f runnerFunc) Run(ctx context.Context, cmd Command) (Output, error) {
	if err := ctx.Err(); err != nil {
		return Output{}, err
	}
	return f(cmd)
}

// answering returns a Client that reads the same output from any command.
func answering(out, stderr string, err error) *Client {
	c := NewClient(runnerFunc(func(Command) (Output, error) { return Output{[]byte(out), []byte(stderr)}, err }), Options{})
	UseRecordedSeparators(c)
	return c
}
