// Package lines keeps files that a crash does not spoil: journals, whose lines are
// appended and synced, and small files that are replaced as a whole.
package lines

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"time"
)

// File is a journal of lines. A line that a crash cut off does not count and goes with
// the next append.
type File struct {
	Path string
	Info os.FileInfo // as last read or written; nil: there was none
	Good int64       // bytes up to the end of the last whole line

	before int64 // Good before the last append
}

// Load reads the whole file; nil when there is none. Whole sets Good.
func (l *File) Load() ([]byte, error) {
	l.Info = nil
	f, err := os.Open(l.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if l.Info, err = f.Stat(); err != nil {
		return nil, err
	}
	return io.ReadAll(f)
}

// Whole goes through the whole lines of the file's text, and sets Good behind each one
// that was taken in.
func (l *File) Whole(text []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		l.Good = 0
		for {
			line, rest, whole := bytes.Cut(text, []byte{'\n'})
			if !whole || !yield(line) {
				return
			}
			l.Good += int64(len(line)) + 1
			text = rest
		}
	}
}

// JSON is the text of a line for each row.
func JSON[T any](rows []T) ([]byte, error) {
	var text bytes.Buffer
	out := json.NewEncoder(&text)
	for _, row := range rows {
		if err := out.Encode(row); err != nil {
			return nil, err
		}
	}
	return text.Bytes(), nil
}

// Unchanged reports whether the file still is as this process left it.
func (l *File) Unchanged(now os.FileInfo) bool {
	return l.Info != nil && os.SameFile(l.Info, now) && l.Info.Size() == now.Size() && l.Info.ModTime().Equal(now.ModTime())
}

// Add appends whole lines with one write and one sync. After an error the file is as
// before.
func (l *File) Add(text []byte) (err error) {
	f, err := os.OpenFile(l.Path, os.O_WRONLY|os.O_CREATE, 0o640)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := l.same(f); err != nil {
		return err
	}
	if err := f.Truncate(l.Good); err != nil { // a line that a crash cut off
		return err
	}
	_, err = f.WriteAt(text, l.Good)
	err = errors.Join(err, f.Sync())
	if err == nil && l.Info == nil {
		err = SyncDir(filepath.Dir(l.Path))
	}
	if err != nil {
		err = errors.Join(err, f.Truncate(l.Good))
		l.Info, _ = f.Stat() // its time has changed
		return err
	}
	l.before = l.Good
	l.Good += int64(len(text))
	l.Info, err = f.Stat()
	return err
}

// same makes sure that an open file is the one that was read, not one that another process
// has put in its place since.
func (l *File) same(f *os.File) error {
	now, err := f.Stat()
	if err == nil && l.Info != nil && !os.SameFile(l.Info, now) {
		err = fmt.Errorf("%s was replaced by another process", l.Path)
	}
	return err
}

// TakeBack undoes the last Add.
func (l *File) TakeBack() error {
	f, err := os.OpenFile(l.Path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := l.same(f); err != nil {
		return err
	}
	if err := f.Truncate(l.before); err != nil {
		return err
	}
	l.Good = l.before
	l.Info, err = os.Stat(l.Path)
	return err
}

// Replace puts other lines in place of all.
func (l *File) Replace(text []byte) error {
	err := Replace(l.Path, text)
	if err != nil {
		return err
	}
	l.Good, l.before = int64(len(text)), int64(len(text))
	l.Info, err = os.Stat(l.Path)
	return err
}

// SetAside keeps what stands there now under another name, and tells which.
func (l *File) SetAside() (string, error) {
	to, err := AsideName(l.Path)
	if err == nil {
		err = os.Link(l.Path, to)
	}
	if err != nil {
		return "", fmt.Errorf("keep a copy of the damaged file: %w", err)
	}
	return to, nil
}

// AsideName is a free name for a file that is set aside now.
func AsideName(path string) (string, error) {
	stem := path + ".broken-" + time.Now().UTC().Format("20060102T150405Z")
	name := stem
	for n := 2; ; n++ {
		_, err := os.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) {
			return name, nil
		}
		if err != nil {
			return "", err
		}
		name = fmt.Sprintf("%s-%d", stem, n)
	}
}

// Exists reports whether a path names anything.
func Exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// Stands reports whether a path still names the file that it did.
func Stands(path string, file os.FileInfo) (bool, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(info, file), err
}

// Forbidden is an error when the file's rights keep this user from it.
func Forbidden(path string) error {
	f, err := os.Open(path)
	if err == nil {
		return f.Close()
	}
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%s is not for this user: ask as a member of its folder's group, or as priod's own user: %w", path, fs.ErrPermission)
	}
	return nil
}

// Replace puts text in place of a file, all of it or nothing, and on disk.
func Replace(path string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".tmp-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // gone after the rename
	_, err = f.Write(text)
	err = errors.Join(err, f.Chmod(0o640), f.Sync(), f.Close())
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// SyncDir makes names in a folder durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
