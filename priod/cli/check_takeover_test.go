package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slurmprio/priod/config"
	"slurmprio/priod/live"
)

func TestSharedFolderIsChecked(t *testing.T) {
	for name, c := range map[string]struct {
		make  func(t *testing.T, dir string)
		level live.Level
		want  string
	}{
		"not there": {func(*testing.T, string) {}, live.Fail, "no such file"},
		"new":       {func(t *testing.T, dir string) { mustDo(t, os.Mkdir(dir, 0o750)) }, live.Pass, "no priod has used it yet"},
		"in use": {func(t *testing.T, dir string) {
			mustDo(t, os.Mkdir(dir, 0o750))
			mustDo(t, os.WriteFile(filepath.Join(dir, "owner.json"), []byte(`{"host":"ctl1","key":"K"}`), 0o640))
		}, live.Pass, "the priod of ctl1 writes there"},
		"spoiled": {func(t *testing.T, dir string) {
			mustDo(t, os.Mkdir(dir, 0o750))
			mustDo(t, os.WriteFile(filepath.Join(dir, "owner.json"), []byte("\x1b[2J"), 0o640))
		}, live.Fail, "owner.json does not say who owns the folder: delete it"},
		"a file": {func(t *testing.T, dir string) { mustDo(t, os.WriteFile(dir, nil, 0o640)) }, live.Fail, "not a directory"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := &config.Config{}
			cfg.State.Shared = filepath.Join(t.TempDir(), "shared")
			c.make(t, cfg.State.Shared)
			found := checkShared(cfg)
			if len(found) != 1 || found[0].Level != c.level || !strings.Contains(found[0].Text, c.want) {
				t.Errorf("%+v, want %q", found, c.want)
			}
			if left, _ := filepath.Glob(filepath.Join(cfg.State.Shared, "check-*")); len(left) > 0 {
				t.Errorf("it leaves %q", left)
			}
		})
	}
	if found := checkShared(&config.Config{}); found != nil {
		t.Errorf("without one: %+v", found)
	}
}

func mustDo(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
