package slurmplug

import (
	"context"
	"os"
	"path/filepath"
	"testing"
)

// recorded is a release of Slurm, a folder of testdata.
type recorded string

// versions are the releases whose output is recorded.
var versions = []recorded{"22.05", "24.11", "26.05"}

// eachVersion runs a test on what each Slurm said.
func eachVersion(t *testing.T, test func(t *testing.T, v recorded)) {
	for _, v := range versions {
		t.Run(string(v), func(t *testing.T) { test(t, v) })
	}
}

// eachRecording gives a fuzz test what each Slurm said.
func eachRecording(f *testing.F, name string, add func(out string)) {
	for _, v := range versions {
		add(v.said(f, name))
	}
}

// recording is what Slurm 22.05 said.
func recording(t testing.TB, name string) string {
	t.Helper()
	return versions[0].said(t, name)
}

// said is what a real Slurm said (testdata/record.sh).
func (v recorded) said(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", string(v), name))
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
