package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"slurmprio/priod/journal"
)

// readFile reads a JSON file of a state folder; nil: there is none.
func readFile[T any](path string) (*T, error) {
	text, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case errors.Is(err, fs.ErrPermission):
		return nil, journal.Forbidden(path)
	case err != nil:
		return nil, err
	}
	x := new(T)
	if err := json.Unmarshal(text, x); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return x, nil
}

// writeFile replaces one.
func writeFile(path string, x any) error {
	text, err := json.MarshalIndent(x, "", "  ")
	if err != nil {
		return err
	}
	return journal.Replace(path, append(text, '\n'))
}

// bodies are rows that are JSON.
func bodies[T any](rows []string) ([]T, error) {
	all := make([]T, len(rows))
	for i, body := range rows {
		if err := json.Unmarshal([]byte(body), &all[i]); err != nil {
			return nil, err
		}
	}
	return all, nil
}
