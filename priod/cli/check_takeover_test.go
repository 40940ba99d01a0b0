package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"slurmprio/priod/config"
	"slurmprio/priod/live"
	"slurmprio/priod/store"
)

// owned makes a shared folder that a host owns since its own clock said so.
func owned(t *testing.T, dir string, since time.Time) {
	t.Helper()
	mustDo(t, os.Mkdir(dir, 0o750))
	mustDo(t, os.WriteFile(filepath.Join(dir, "owner.json"), []byte(`{"host":"ctl1","key":"K","since":"`+since.Format(time.RFC3339)+`"}`), 0o640))
}

func TestSharedFolderIsChecked(t *testing.T) {
	for name, c := range map[string]struct {
		make func(t *testing.T, dir string)
		want []string // of each finding, its level and text
	}{
		"not there": {func(*testing.T, string) {}, []string{"FAIL: no such file"}},
		"new":       {func(t *testing.T, dir string) { mustDo(t, os.Mkdir(dir, 0o750)) }, []string{"PASS: no priod has used it yet", "PASS: agree"}},
		"in use": {func(t *testing.T, dir string) { owned(t, dir, time.Now()) },
			[]string{"PASS: the priod of ctl1 writes there", "PASS: as did the clock of ctl1"}},
		"owned by a host whose clock is ahead": {func(t *testing.T, dir string) { owned(t, dir, time.Now().Add(10*time.Minute)) },
			[]string{"PASS: the priod of ctl1", "WARN: ahead compared with this host"}},
		"and behind": {func(t *testing.T, dir string) { owned(t, dir, time.Now().Add(-10*time.Minute)) },
			[]string{"PASS: the priod of ctl1", "WARN: behind compared with this host"}},
		"spoiled": {func(t *testing.T, dir string) {
			mustDo(t, os.Mkdir(dir, 0o750))
			mustDo(t, os.WriteFile(filepath.Join(dir, "owner.json"), []byte("\x1b[2J"), 0o640))
		}, []string{"WARN: gone or corrupt, and the active priod rewrites it"}},
		"another one than this host saw": {func(t *testing.T, dir string) {
			owned(t, dir, time.Now())
			state := filepath.Join(filepath.Dir(dir), "state")
			mustDo(t, os.Mkdir(state, 0o750))
			mustDo(t, os.WriteFile(filepath.Join(state, "owner.json"), []byte(`{"host":"ctl1","key":"L"}`), 0o640))
		}, []string{"FAIL: Is the right one mounted"}},
		"a file": {func(t *testing.T, dir string) { mustDo(t, os.WriteFile(dir, nil, 0o640)) }, []string{"FAIL: is no folder"}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := &config.Config{}
			top := t.TempDir()
			cfg.State.Shared, cfg.State.Dir = filepath.Join(top, "shared"), filepath.Join(top, "state")
			c.make(t, cfg.State.Shared)
			found := checkShared(cfg, filepath.Dir(cfg.State.Shared))
			if !slices.EqualFunc(found, c.want, func(f live.Finding, want string) bool {
				level, text, _ := strings.Cut(want, ": ")
				return string(f.Level) == level && strings.Contains(f.Text, text)
			}) {
				t.Errorf("%+v, want %q", found, c.want)
			}
			if left, _ := filepath.Glob(filepath.Join(cfg.State.Shared, "check-*")); len(left) > 0 {
				t.Errorf("it leaves %q", left)
			}
		})
	}
	if found := checkShared(&config.Config{}, ""); found != nil {
		t.Errorf("without one: %+v", found)
	}
}

// A clock that is not the file server's, and a folder that is not on slurmctld's file system.
func TestSharedFolderOfAnotherServer(t *testing.T) {
	for by, want := range map[time.Duration]string{time.Hour: "1h0m0s ahead", -time.Hour: "1h0m0s behind", time.Second: "agree"} {
		if f := checkClocks(t.TempDir(), nil, by); !strings.Contains(f.Text, want) || (f.Level == live.Pass) != (by == time.Second) {
			t.Errorf("%v: %+v", by, f)
		}
	}
	dir := filepath.Join(t.TempDir(), "shared") // each clock nearly agrees with the server's, and not with the other one
	owned(t, dir, time.Now().Add(25*time.Second))
	owner, err := store.CheckShared(t.TempDir(), dir)
	if f := checkClocks(dir, owner, -25*time.Second); err != nil || f.Level != live.Warn {
		t.Errorf("%+v, %v", f, err)
	}
	cfg := &config.Config{}
	cfg.State.Shared = t.TempDir()
	if found := checkShared(cfg, "/proc"); len(found) != 3 || found[1].Level != live.Warn || !strings.Contains(found[1].Text, "another file system") {
		t.Errorf("%+v", found)
	}
}

func TestSharedFolderOfAnotherCluster(t *testing.T) {
	cfg := &config.Config{}
	cfg.State.Dir, cfg.State.Shared = t.TempDir(), t.TempDir()
	if err := ofCluster(cfg, "one"); err != nil {
		t.Errorf("a new folder: %v", err)
	}
	mustDo(t, os.WriteFile(filepath.Join(cfg.State.Shared, "owner.json"), []byte(`{"host":"ctl1","key":"K","cluster":"one"}`), 0o640))
	if err := ofCluster(cfg, "one"); err != nil {
		t.Error(err)
	}
	if err := ofCluster(cfg, "two"); err == nil || !strings.Contains(err.Error(), "is cluster one's, and this is two") {
		t.Error(err)
	}
}

func mustDo(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
