package cli

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"slurmprio/priod/config"
	"slurmprio/slurmplug/prio"
)

// luaRules prints what etc/slurm/job_submit.lua has to know of priod.toml, as prio_rules.lua.
func luaRules(c *cli.Context, cfg *config.Config) error {
	hold := c.Duration("hold")
	if hold < 0 || hold > prio.LongestHold || hold%time.Second != 0 {
		return usageError{fmt.Errorf("config lua: --hold %v: want whole seconds up to a minute, such as 20s, or 0s", hold)}
	}
	if !cfg.Steering.Enabled && !cfg.Sizing.Enabled {
		hold = 0 // nothing happens to a job before it starts
	}
	return writeOut(c, func(w io.Writer) error {
		_, err := io.WriteString(w, luaOf(cfg, hold))
		return err
	})
}

// luaOf is the file. A class rule with a job name stands there for its order alone: priod reads names itself.
func luaOf(cfg *config.Config, hold time.Duration) string {
	var b strings.Builder
	fmt.Fprintf(&b, "-- Made by \"priod config lua\" of priod.toml. Do not edit.\nreturn {\n  hold = %d,\n", hold/time.Second)
	if limit := cfg.TEBudget.User.TimeLimit; limit != nil && *limit > 0 {
		fmt.Fprintf(&b, "  te_minutes = %d,\n", time.Duration(*limit)/time.Minute)
	}
	b.WriteString("  classes = {\n")
	for _, r := range cfg.Classes {
		fmt.Fprintf(&b, "    { name = %s, type = %s", luaText(r.Name), luaText(r.Type))
		luaMatch(&b, r.Partitions, r.QOS, r.Accounts)
		if r.MaxTime > 0 {
			fmt.Fprintf(&b, ", max_minutes = %d", int64(math.Floor(time.Duration(r.MaxTime).Minutes())))
		}
		if r.MaxGPUs > 0 {
			fmt.Fprintf(&b, ", max_gpus = %d", r.MaxGPUs)
		}
		if r.Interactive {
			b.WriteString(", interactive = true")
		}
		if r.JobName != "" {
			fmt.Fprintf(&b, ", job_name = %s", luaText(r.JobName))
		}
		b.WriteString(" },\n")
	}
	b.WriteString("  },\n  consents = {\n")
	for _, t := range cfg.Consents {
		fmt.Fprintf(&b, "    { gpu_type = %t, size = %t", t.GPUType && cfg.Steering.Enabled, t.Size && cfg.Sizing.Enabled)
		luaMatch(&b, t.Partitions, t.QOS, t.Accounts)
		b.WriteString(" },\n")
	}
	b.WriteString("  },\n}\n")
	return b.String()
}

func luaMatch(b *strings.Builder, partitions, qos, accounts []string) {
	for _, l := range []struct {
		key   string
		names []string
	}{{"partitions", partitions}, {"qos", qos}, {"accounts", accounts}} {
		if len(l.names) == 0 {
			continue
		}
		var quoted []string
		for _, n := range l.names {
			quoted = append(quoted, luaText(n))
		}
		fmt.Fprintf(b, ", %s = { %s }", l.key, strings.Join(quoted, ", "))
	}
}

// luaText is a text in Lua: its bytes beyond printable ASCII as decimal escapes.
func luaText(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ' || c > '~':
			b.WriteString("\\" + fmt.Sprintf("%03s", strconv.Itoa(int(c))))
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}
