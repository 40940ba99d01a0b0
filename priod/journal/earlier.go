package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Kinds of records.
const (
	Write   = "write"   // a change of a job, package undo
	Known   = "known"   // what became of such changes, package undo
	Reset   = "reset"   // a reset took back all but what it names, package undo
	Turn    = "turn"    // claims and evictions, package evict
	Failure = "failure" // jobs that failed and nodes taken out of use, package retry
)

var kinds = []string{Write, Known, Reset, Turn, Failure}

// earlierFiles are those of versions without a journal, whose lines are the bodies of records.
var earlierFiles = []struct{ name, kind string }{{"undo.jsonl", Write}, {"evictions.jsonl", Turn}, {"failures.jsonl", Failure}}

// readEarlier takes in the files of an earlier version; the next append writes them into the journal.
func (j *Journal) readEarlier(dir string) error {
	if mark, err := os.ReadFile(filepath.Join(dir, "reset")); err == nil {
		if at, err := time.Parse(time.RFC3339Nano, strings.TrimSpace(string(mark))); err == nil {
			body, _ := json.Marshal(map[string]time.Time{"at": at}) // a time is always one
			j.take(Reset, body)
			j.earlier = append(j.earlier, filepath.Join(dir, "reset"))
		}
	}
	for _, f := range earlierFiles {
		text, err := os.ReadFile(filepath.Join(dir, f.name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		j.earlier, j.anew = append(j.earlier, filepath.Join(dir, f.name)), true
		for n, line := range bytes.Split(text[:bytes.LastIndexByte(text, '\n')+1], []byte{'\n'}) {
			var was struct {
				Journal, Cluster string
			}
			switch {
			case len(line) == 0:
			case f.kind == Turn && n == 0 && json.Unmarshal(line, &was) == nil && was.Journal != "":
				j.head.Cluster = was.Cluster
			case !json.Valid(line) || !j.take(f.kind, line):
				j.damaged++
			}
		}
	}
	return nil
}

// Retire renames the journal, whose records stand in another one now.
func (j *Journal) Retire() error {
	err := j.retireEarlier()
	if j.file.info != nil {
		err = errors.Join(err, os.Rename(j.file.path, j.file.path+".moved"))
	}
	return errors.Join(err, SyncDir(filepath.Dir(j.file.path)))
}

// retireEarlier renames the files of an earlier version, whose records stand in the journal now.
func (j *Journal) retireEarlier() (err error) {
	for _, path := range j.earlier {
		err = errors.Join(err, os.Rename(path, path+".moved"))
	}
	j.earlier = nil
	return err
}
