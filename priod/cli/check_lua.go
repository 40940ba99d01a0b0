package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"

	"slurmprio/etc"
	"slurmprio/priod/config"
	"slurmprio/priod/live"
)

// luaVersion is where each of our Lua files says its version.
var luaVersion = regexp.MustCompile(`(?m)^local M = \{ version = (\d+)`)

// luaHold is where prio_rules.lua has its hold.
var luaHold = regexp.MustCompile(`(?m)^ *hold = (\d+),$`)

// luaHooks are Slurm's own hooks as this host has them: on that of slurmctld they are those that act.
type luaHooks struct {
	folder      string // of slurm.conf
	plugin, cli bool   // JobSubmitPlugins and CliFilterPlugins have lua
	hold        time.Duration
	findings    []live.Finding
}

// checkLua finds the Lua files beside slurm.conf, their versions and whether their rules are those of priod.toml.
func checkLua(ctx context.Context, cfg *config.Config) luaHooks {
	conf, err := newClient(cfg).Config(ctx)
	if err != nil {
		return luaHooks{} // others say so
	}
	h := luaHooks{
		folder: filepath.Dir(conf.Get("SLURM_CONF")),
		plugin: slices.Contains(conf.List("JobSubmitPlugins"), "lua"), cli: slices.Contains(conf.List("CliFilterPlugins"), "lua"),
	}
	h.look(cfg)
	return h
}

func (h *luaHooks) find(level live.Level, fix, format string, a ...any) {
	h.findings = append(h.findings, live.Finding{Level: level, Name: "lua", Text: fmt.Sprintf(format, a...), Fix: fix})
}

func (h *luaHooks) look(cfg *config.Config) {
	const install = "copy the files of share/slurmprio/slurm there, and scontrol reconfigure"
	library, there := h.version("prio.lua")
	_, submits := h.version("job_submit.lua")
	_, filters := h.version("cli_filter.lua")
	switch {
	case !there && (h.plugin && submits || h.cli && filters):
		h.find(live.Warn, install, "no readable prio.lua in %s, which the other Lua files need: they do nothing", h.folder)
		return
	case !there:
		return // none, or a script of the site's own
	case !h.plugin && !h.cli:
		h.find(live.Warn, "JobSubmitPlugins=lua", "%s exists, but slurm.conf names no lua plugin: it does nothing", filepath.Join(h.folder, "prio.lua"))
		return
	}
	of := map[string]bool{"job_submit.lua": h.plugin, "cli_filter.lua": h.cli}
	oldest, latest := library, library
	for name, used := range of {
		if v, ours := h.version(name); used && ours {
			oldest, latest = min(oldest, v), max(latest, v)
		}
	}
	text, err := etc.Lua.ReadFile("slurm/prio.lua")
	if err != nil {
		panic(err) // it is embedded
	}
	switch here := versionOf(text); {
	case latest > here:
		h.find(live.Warn, "update priod", "the Lua files in %s are of version %d, this priod knows %d", h.folder, latest, here)
	case oldest < here:
		h.find(live.Warn, install, "the Lua files in %s are of version %d, this priod ships %d", h.folder, oldest, here)
	}
	if h.plugin {
		h.rules(cfg)
	}
	if len(h.findings) == 0 {
		h.find(live.Pass, "", "version %d in %s; jobs that may be steered or sized are held for %s", library, h.folder, h.hold)
	}
}

// rules compares prio_rules.lua with priod.toml.
func (h *luaHooks) rules(cfg *config.Config) {
	path := filepath.Join(h.folder, "prio_rules.lua")
	text, err := os.ReadFile(path)
	made := fmt.Sprintf("priod config lua --hold 20s --out %s && scontrol reconfigure", path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		h.find(live.Warn, made, "no %s: job_submit.lua has no class rule, no consent and no hold", path)
		return
	case err != nil:
		h.find(live.Warn, "", "%v", err)
		return
	}
	if m := luaHold.FindSubmatch(text); m != nil {
		seconds, _ := strconv.Atoi(string(m[1])) // digits
		h.hold = time.Duration(seconds) * time.Second
	}
	if string(text) != luaOf(cfg, h.hold) {
		if h.hold > 0 {
			made = fmt.Sprintf("priod config lua --hold %s --out %s && scontrol reconfigure", shortSpan(h.hold), path)
		}
		h.find(live.Warn, made, "%s is out of date with priod.toml: class rules, consent or the hold differ", path)
	}
}

// version is that of a file of ours beside slurm.conf.
func (h *luaHooks) version(name string) (version int, ours bool) {
	text, err := os.ReadFile(filepath.Join(h.folder, name))
	if err != nil {
		return 0, false
	}
	version = versionOf(text)
	return version, version > 0
}

// versionOf is the version in a Lua file; 0: it is not ours.
func versionOf(text []byte) int {
	m := luaVersion.FindSubmatch(text)
	if m == nil {
		return 0
	}
	n, _ := strconv.Atoi(string(m[1])) // digits
	return n
}
