package undo

import (
	"os"
	"testing"
	"time"
)

// epoch is where the tests' clocks begin.
var epoch = time.Date(2025, 11, 3, 10, 0, 0, 0, time.UTC)

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}
