package lab

import (
	"bytes"
	"compress/flate"
	"context"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// freshDatabase is the data folder of a MariaDB that was just installed, kept in memory by
// the first lab of a process for those after it: an installation takes a second of CPU. It is
// compressed from 26 MB to one: tests measure the heap of this process.
var freshDatabase struct {
	sync.Mutex
	files []file
}

// file is a file or folder below some folder.
type file struct {
	path string
	mode fs.FileMode
	text []byte // compressed
}

// installDatabase makes the data folder of the lab's MariaDB.
func (l *Lab) installDatabase(ctx context.Context) error {
	data := l.path("db/data")
	freshDatabase.Lock()
	defer freshDatabase.Unlock()
	if freshDatabase.files != nil {
		return writeFiles(data, freshDatabase.files)
	}
	if err := l.runToEnd(ctx, "mariadb-install-db", append([]string{
		lookup("mariadb-install-db"), "--no-defaults", "--datadir=" + data, "--tmpdir=" + l.path("db"),
		"--force", "--skip-name-resolve", "--skip-test-db", "--auth-root-authentication-method=normal"}, l.asUser(quickInnoDB...)...), ""); err != nil {
		return err
	}
	files, err := readFiles(data)
	freshDatabase.files = files
	return err
}

// readFiles reads all that is below a folder.
func readFiles(dir string) (files []file, err error) {
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		f := file{mode: info.Mode()}
		if f.path, err = filepath.Rel(dir, path); err == nil && f.mode.IsRegular() {
			f.text, err = compressed(path)
		}
		if f.mode.IsRegular() || f.mode.IsDir() {
			files = append(files, f)
		}
		return err
	})
	return files, err
}

// writeFiles makes a folder with what readFiles read.
func writeFiles(dir string, files []file) error {
	for _, f := range files {
		path := filepath.Join(dir, f.path)
		if f.mode.IsDir() {
			if err := os.MkdirAll(path, f.mode.Perm()); err != nil {
				return err
			}
			continue
		}
		text, err := io.ReadAll(flate.NewReader(bytes.NewReader(f.text)))
		if err != nil {
			return err
		}
		if err := os.WriteFile(path, text, f.mode.Perm()); err != nil {
			return err
		}
	}
	return nil
}

func compressed(path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, flate.BestSpeed)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(text); err != nil {
		return nil, err
	}
	err = w.Close()
	return b.Bytes(), err
}
