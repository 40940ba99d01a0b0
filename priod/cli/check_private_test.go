package cli

import (
	"strings"
	"testing"

	"slurmprio/priod/config"
	"slurmprio/priod/live"
)

// What Slurm hides and the pages show is said, with what to do.
func TestCheckPrivate(t *testing.T) {
	for _, c := range []struct {
		hidden, header string
		level          live.Level
		want           string
	}{
		{"", "", live.Pass, ""}, {"none", "", live.Pass, ""}, {"events", "", live.Pass, ""},
		{"jobs", "", live.Warn, "PrivateData=jobs hides"}, {"jobs,usage,events", "", live.Warn, "PrivateData=jobs,usage hides"}, {"all", "", live.Warn, "PrivateData=all hides"},
		{"jobs,usage,users,accounts", "X-Remote-User", live.Pass, ""}, {"jobs,nodes", "X-Remote-User", live.Warn, "PrivateData=nodes: the pages show nodes"},
	} {
		cfg := &config.Config{}
		cfg.Web.UserHeader = c.header
		f := privateFindings(cfg, strings.Split(c.hidden, ","))[0]
		if f.Level != c.level || !strings.Contains(f.Text, c.want) || (f.Fix == "") != (c.level == live.Pass) {
			t.Errorf("PrivateData=%s, user_header %q: %+v", c.hidden, c.header, f)
		}
	}
}
