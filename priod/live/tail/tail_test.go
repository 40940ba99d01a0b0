package tail

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"slurmprio/priod/plan"
)

// The test binary is the child, and who attacks it, too.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == Verb {
		if err := Child(os.Args[2:], os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if len(os.Args) > 1 && attacks[os.Args[1]] != nil {
		attack(os.Args[1], os.Args[2])
	}
	os.Exit(m.Run())
}

func put(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// real is a folder whose path has no link in it.
func realDir(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestReadTheEnd(t *testing.T) {
	dir := realDir(t)
	read := func(path string, most int64) ([]byte, error) {
		text, _, err := Read(Request{Path: path}, most)
		return text, err
	}
	if got, err := read(put(t, filepath.Join(dir, "a"), "0123456789"), 4); string(got) != "6789" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := read(put(t, filepath.Join(dir, "b"), ""), 4); len(got) != 0 || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	// 100 GB, of which the disk has next to nothing.
	big, err := os.Create(filepath.Join(dir, "big"))
	if err != nil {
		t.Fatal(err)
	}
	defer big.Close()
	if _, err := big.WriteAt([]byte("the end"), 100<<30); err != nil {
		t.Skip(err)
	}
	got, err := read(big.Name(), Most)
	if len(got) != Most || !bytes.HasSuffix(got, []byte("the end")) || err != nil {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// In a file to which a job's runs append, what an earlier run wrote is not this one's; in one
// that each run starts over all of it is.
func TestReadWhatARunWrote(t *testing.T) {
	path := filepath.Join(realDir(t), "out")
	const most = 16
	run := func(text string, appends bool, earlier plan.Mark, began time.Time) (string, plan.Mark) {
		t.Helper()
		flag := os.O_CREATE | os.O_WRONLY | os.O_TRUNC
		if appends {
			flag = os.O_CREATE | os.O_WRONLY | os.O_APPEND
		}
		f, err := os.OpenFile(path, flag, 0o644)
		if err == nil && text != "" {
			_, err = f.WriteString(text)
		}
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		got, end, err := Read(Request{Path: path, Earlier: earlier, Began: began}, most)
		if err != nil {
			t.Fatal(err)
		}
		return string(got), end
	}
	now := time.Now()
	for _, x := range []struct {
		name, text string
		appends    bool
		began      time.Duration
	}{
		{"appended", "second\n", true, -time.Second},
		{"appended a lot", "a second run that fails\n", true, -time.Second},
		{"appended nothing", "", true, time.Hour},
		{"anew, the same", "a first run that fails\n", false, -time.Second},
		{"anew, shorter", "second\n", false, -time.Second},
		{"anew, longer", "another, which is longer than the first\n", false, -time.Second},
	} {
		_, first := run("a first run that fails\n", false, plan.Mark{}, now)
		got, end := run(x.text, x.appends, first, now.Add(x.began))
		if !strings.HasSuffix(x.text, got) && x.text != "" || x.text == "" && got != "" || len(x.text) > 0 && len(got) != min(len(x.text), most) {
			t.Errorf("%s: %q of %q", x.name, got, x.text)
		}
		if st, err := os.Stat(path); err != nil || end.Bytes != st.Size() {
			t.Errorf("%s: ends at %+v", x.name, end)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	dir := realDir(t)
	file := put(t, filepath.Join(dir, "file"), "secret")
	link, loop, pipe := filepath.Join(dir, "link"), filepath.Join(dir, "folder"), filepath.Join(dir, "pipe")
	inner := filepath.Join(dir, "inner")
	errs := errors.Join(os.Symlink(file, link), os.Mkdir(inner, 0o755), os.Symlink(inner, loop), syscall.Mkfifo(pipe, 0o644))
	if errs != nil {
		t.Fatal(errs)
	}
	put(t, filepath.Join(inner, "x"), "secret")
	shadow := filepath.Join(dir, "shadow")
	if err := os.Symlink("/etc/shadow", shadow); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{link, filepath.Join(loop, "x"), pipe, shadow, "/dev/zero", "/dev/null", dir, "relative", "", "/a\x00b", filepath.Join(dir, "gone"), "/proc/self/fd/0", "/dev/stdin"} {
		for name, read := range map[string]func() ([]byte, error){
			"openat2": func() ([]byte, error) {
				text, _, err := Read(Request{Path: path}, Most)
				return text, err
			},
			"walk": func() ([]byte, error) {
				fd, err := walk(path)
				if err != nil {
					return nil, err
				}
				defer syscall.Close(fd)
				var st syscall.Stat_t
				if err := syscall.Fstat(fd, &st); err != nil || st.Mode&syscall.S_IFMT != syscall.S_IFREG {
					return nil, errors.New("no regular file")
				}
				return []byte("a regular file"), nil
			},
		} {
			got, err := read() // a pipe that is opened would hang here
			if name == "walk" && (path == "relative" || strings.Contains(path, "\x00") || path == "") {
				continue // Read does not ask
			}
			if err == nil {
				t.Errorf("%s of %q: %q", name, path, got)
			}
		}
	}
}

// account is a user that is not root, whose files root can make.
type account struct{ uid, gid uint32 }

func accountOf(t *testing.T, name string) account {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	u, err := user.Lookup(name)
	if err != nil {
		t.Skip(err)
	}
	uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	return account{uint32(uid), uint32(gid)}
}

// dir is a folder of a user, who can also run this program: go test builds it in a folder of its own.
func (a account) dir(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	dir := realDir(t)
	if err := errors.Join(err, open(self), open(dir), os.Chown(dir, int(a.uid), int(a.gid))); err != nil {
		t.Fatal(err)
	}
	return dir
}

// file is a file of a user.
func (a account) file(t *testing.T, text string) string {
	t.Helper()
	path := put(t, filepath.Join(a.dir(t), "out"), text)
	if err := os.Chown(path, int(a.uid), int(a.gid)); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAsReadsWithTheUsersRightsOnly(t *testing.T) {
	u := accountOf(t, "nobody")
	own := u.file(t, "mine")
	dir := filepath.Dir(own)
	foreign, theirs := put(t, filepath.Join(dir, "root"), "root's"), put(t, filepath.Join(dir, "closed"), "root's")
	if err := os.Chmod(theirs, 0o600); err != nil {
		t.Fatal(err)
	}
	as := func(uid uint32, path string) ([]byte, error) {
		x := NewReader().Begin(Run{}, uid, Request{Path: path})
		<-x.Done
		if x.Err == nil && x.End.Bytes != int64(len(x.Text)) {
			t.Errorf("%q ends at %+v", x.Text, x.End)
		}
		return x.Text, x.Err
	}
	if got, err := as(u.uid, own); string(got) != "mine" || err != nil {
		t.Fatalf("%q, %v", got, err)
	}
	for path, want := range map[string]string{foreign: "another user", theirs: "", "/etc/shadow": "", filepath.Join(dir, "none"): "no such file"} {
		if got, err := as(u.uid, path); err == nil || !strings.Contains(err.Error(), want) || len(got) > 0 {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
	if got, err := as(0, own); err == nil {
		t.Errorf("as root: %q", got)
	}
}

// open lets everybody reach a file.
func open(path string) error {
	for dir := filepath.Dir(path); len(dir) > len(os.TempDir()); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			return err
		}
	}
	return os.Chmod(path, 0o755)
}
