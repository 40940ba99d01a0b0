package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// lineFile is a journal beside the database: lines that are appended and synced. A
// line that a crash cut off does not count and goes with the next append.
type lineFile struct {
	path   string
	file   os.FileInfo // as last read or written; nil: there was none
	good   int64       // bytes up to the end of the last whole line
	before int64       // good before the last append
}

// load reads the whole file; nil when there is none.
func (l *lineFile) load() ([]byte, error) {
	l.file = nil
	f, err := os.Open(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if l.file, err = f.Stat(); err != nil {
		return nil, err
	}
	return io.ReadAll(f)
}

// unchanged tells whether the file still is as this process left it.
func (l *lineFile) unchanged(now os.FileInfo) bool {
	return l.file != nil && os.SameFile(l.file, now) && l.file.Size() == now.Size() && l.file.ModTime().Equal(now.ModTime())
}

// add appends whole lines with one write and one sync. After an error the file is as
// before.
func (l *lineFile) add(text []byte) (err error) {
	f, err := os.OpenFile(l.path, os.O_WRONLY|os.O_CREATE, 0o640)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := f.Truncate(l.good); err != nil { // a line that a crash cut off
		return err
	}
	_, err = f.WriteAt(text, l.good)
	err = errors.Join(err, f.Sync())
	if err == nil && l.file == nil {
		err = syncDir(filepath.Dir(l.path))
	}
	if err != nil {
		err = errors.Join(err, f.Truncate(l.good))
		l.file, _ = f.Stat() // its time has changed
		return err
	}
	l.before = l.good
	l.good += int64(len(text))
	l.file, err = f.Stat()
	return err
}

// setAside keeps what stands there now under another name, and tells which.
func (l *lineFile) setAside() (string, error) {
	to, err := asideName(l.path)
	if err == nil {
		err = os.Link(l.path, to)
	}
	if err != nil {
		return "", fmt.Errorf("keep a copy of the damaged file: %w", err)
	}
	return to, nil
}
