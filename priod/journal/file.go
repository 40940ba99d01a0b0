// Package journal keeps what priod's next decision and every undo rest on, in one file of records: see Journal. Its other
// functions keep small files that a crash does not spoil.
package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// file is one of lines. A line that a crash cut off does not count and goes with the next append.
type file struct {
	path string
	info os.FileInfo // as last read or written; nil: there was none
	good int64       // bytes up to the end of the last whole line

	alone bool // no other process writes it, and it reaches the disk when it may
}

// load reads the whole file; nil when there is none.
func (f *file) load() ([]byte, error) {
	f.info = nil
	open, err := os.Open(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer open.Close()
	if f.info, err = open.Stat(); err != nil {
		return nil, err
	}
	return io.ReadAll(open)
}

// tail reads what stands behind the last whole line.
func (f *file) tail() ([]byte, error) {
	open, err := os.Open(f.path)
	if err != nil {
		return nil, err
	}
	defer open.Close()
	return io.ReadAll(io.NewSectionReader(open, f.good, 1<<40))
}

// whole goes through the whole lines of a text that stands behind good, and sets good behind each one that was taken in.
func (f *file) whole(text []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for {
			line, rest, whole := bytes.Cut(text, []byte{'\n'})
			if !whole || !yield(line) {
				return
			}
			f.good += int64(len(line)) + 1
			text = rest
		}
	}
}

// unchanged reports whether the file still is as this process left it.
func (f *file) unchanged(now os.FileInfo) bool {
	return os.SameFile(f.info, now) && f.info.Size() == now.Size() && f.info.ModTime().Equal(now.ModTime())
}

// add appends whole lines with one write and one sync. After an error the file is as before.
func (f *file) add(text []byte) (err error) {
	open, err := os.OpenFile(f.path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, open.Close()) }()
	if err := f.same(open); err != nil {
		return err
	}
	if err := open.Truncate(f.good); err != nil { // a line that a crash cut off
		return err
	}
	_, err = open.WriteAt(text, f.good)
	if !f.alone {
		err = errors.Join(err, open.Sync())
	}
	if err != nil {
		err = errors.Join(err, open.Truncate(f.good))
		f.info, _ = open.Stat() // its time has changed
		return err
	}
	f.good += int64(len(text))
	f.info, err = open.Stat()
	return err
}

// same makes sure that an open file is the one that was read, not one that another host's priod has put in its place since.
func (f *file) same(open *os.File) error {
	now, err := open.Stat()
	if err == nil && !os.SameFile(f.info, now) {
		err = fmt.Errorf("%s was replaced by another process", f.path)
	}
	return err
}

// replace puts other lines in place of all.
func (f *file) replace(text []byte) error {
	err := Replace(f.path, text)
	if err != nil {
		return err
	}
	f.good = int64(len(text))
	f.info, err = os.Stat(f.path)
	return err
}

// setAside keeps what stands there now under another name, and tells which.
func (f *file) setAside() (string, error) {
	to, err := AsideName(f.path)
	if err == nil {
		err = os.Link(f.path, to)
	}
	if err != nil {
		return "", fmt.Errorf("keep a copy of the damaged file: %w", err)
	}
	return to, nil
}

// lockPatience is for how long a writer waits for another one, which takes milliseconds. Who may read the lock file can hold
// it for longer.
const lockPatience = 5 * time.Second

// lockFile waits for a lock file and holds it until unlock is called; "" is no lock.
func lockFile(path string) (unlock func(), err error) {
	if path == "" {
		return func() {}, nil
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o640)
	if err != nil {
		return nil, err
	}
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if err != syscall.EWOULDBLOCK && err != syscall.EINTR || time.Since(began) > lockPatience {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
		}
	}
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
