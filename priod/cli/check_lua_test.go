package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slurmprio/etc"
	"slurmprio/priod/config"
	"slurmprio/priod/live"
)

// check finds the Lua files, an older or newer version of one, and rules that are not those of priod.toml.
func TestCheckLua(t *testing.T) {
	cfg := &config.Config{Classes: []config.ClassRule{{Name: "short", Type: "te", MaxTime: config.Duration(time.Hour)}}}
	cfg.Steering.Enabled = true
	ours := func(name string) string {
		text, err := etc.Lua.ReadFile("slurm/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	next := func(name string) string { return strings.Replace(ours(name), "version = 1", "version = 2", 1) }
	all := map[string]string{"prio.lua": ours("prio.lua"), "job_submit.lua": ours("job_submit.lua"), "prio_rules.lua": luaOf(cfg, 20*time.Second)}
	with := func(name, text string) map[string]string {
		files := map[string]string{name: text}
		for n, text := range all {
			if n != name {
				files[n] = text
			}
		}
		return files
	}
	for name, c := range map[string]struct {
		files       map[string]string
		plugin, cli bool
		level       live.Level
		text, fix   string
		hold        time.Duration
	}{
		"nothing there":               {nil, false, false, "", "", "", 0},
		"a site's own script":         {map[string]string{"job_submit.lua": "function slurm_job_submit() end"}, true, false, "", "", "", 0},
		"all":                         {all, true, false, live.Pass, "version 1 in", "", 20 * time.Second},
		"called by the site's script": {with("job_submit.lua", `local prio = dofile("job_submit_prio.lua")`), true, false, live.Pass, "held for 20s", "", 20 * time.Second},
		"broken prio.lua":             {with("prio.lua", "x x"), true, false, live.Warn, "no readable prio.lua", "copy the files", 0},
		"no plugin":                   {all, false, false, live.Warn, "names no lua plugin", "JobSubmitPlugins=lua", 0},
		"a newer one":                 {map[string]string{"prio.lua": next("prio.lua"), "job_submit.lua": next("job_submit.lua"), "prio_rules.lua": all["prio_rules.lua"]}, true, false, live.Warn, "of version 2, this priod knows 1", "update priod", 20 * time.Second},
		"one newer":                   {with("prio.lua", next("prio.lua")), true, false, live.Warn, "of version 2, this priod knows 1", "update priod", 20 * time.Second},
		"no rules":                    {map[string]string{"prio.lua": all["prio.lua"], "job_submit.lua": all["job_submit.lua"]}, true, false, live.Warn, "has no class rule", "priod config lua --hold 20s", 0},
		"other rules":                 {with("prio_rules.lua", luaOf(&config.Config{}, 20*time.Second)), true, false, live.Warn, "out of date with priod.toml", "--hold 20s", 20 * time.Second},
		"broken rules":                {with("prio_rules.lua", "x x"), true, false, live.Warn, "out of date with priod.toml", "--hold 20s", 0},
		"login host":                  {map[string]string{"prio.lua": all["prio.lua"], "cli_filter.lua": ours("cli_filter.lua")}, false, true, live.Pass, "version 1", "", 0},
	} {
		h := luaHooks{folder: t.TempDir(), plugin: c.plugin, cli: c.cli}
		for file, text := range c.files {
			if err := os.WriteFile(filepath.Join(h.folder, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if h.look(cfg); h.hold != c.hold {
			t.Errorf("%s: hold %s, want %s", name, h.hold, c.hold)
		}
		switch {
		case c.level == "":
			if len(h.findings) > 0 {
				t.Errorf("%s: %+v", name, h.findings)
			}
		case len(h.findings) != 1 || h.findings[0].Level != c.level || !strings.Contains(h.findings[0].Text, c.text) || !strings.Contains(h.findings[0].Fix, c.fix):
			t.Errorf("%s: %+v, want %s %q, fix %q", name, h.findings, c.level, c.text, c.fix)
		}
	}
}
