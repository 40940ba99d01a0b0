package slurmplug

import (
	"context"
	"os"
	"path/filepath"
	"testing"
)

// versions are the Slurms that testdata was recorded with.
var versions = []string{"22.05", "24.11", "26.05"}

// eachVersion runs a test on the recordings of each Slurm.
func eachVersion(t *testing.T, test func(t *testing.T, version string)) {
	for _, version := range versions {
		t.Run(version, func(t *testing.T) { test(t, version) })
	}
}

// eachRecording gives a fuzz test what each Slurm said.
func eachRecording(f *testing.F, name string, add func(out string)) {
	for _, version := range versions {
		add(recordingOf(f, version, name))
	}
}

// recording is what Slurm 22.05 said (testdata/record.sh).
func recording(t testing.TB, name string) string { return recordingOf(t, "22.05", name) }

// recordingOf is what a real Slurm said.
func recordingOf(t testing.TB, version, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", version, name))
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
	c := NewClient(runnerFunc(func(Command) (Output, error) { return Output{[]byte(out), []byte(stderr)}, err }), Options{Abilities: &Abilities{}})
	UseRecordedSeparators(c)
	return c
}
