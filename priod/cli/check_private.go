package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"slurmprio/priod/config"
	"slurmprio/priod/live"
)

// checkPrivate says where the pages show what Slurm hides from users (PrivateData of slurm.conf).
func checkPrivate(ctx context.Context, cfg *config.Config) []live.Finding {
	if cfg.Web.Listen == "" {
		return nil
	}
	conf, err := newClient(cfg).Config(ctx)
	if err != nil {
		return nil // another check says so
	}
	return privateFindings(cfg, conf.List("PrivateData"))
}

func privateFindings(cfg *config.Config, hidden []string) []live.Finding {
	shown := []string{"nodes", "reservations"} // of what can be hidden, by pages for named users
	if cfg.Web.UserHeader == "" {
		shown = append(shown, "jobs", "users", "accounts", "usage")
	}
	open := slices.DeleteFunc(slices.Clone(hidden), func(x string) bool { return x != "all" && !slices.Contains(shown, x) })
	f := live.Finding{Level: live.Pass, Name: "pages", Text: "they show nothing that PrivateData of slurm.conf hides"}
	switch {
	case len(open) == 0:
	case cfg.Web.UserHeader == "":
		f.Level, f.Fix = live.Warn, "web.user_header = \"X-Remote-User\" in priod.toml and the same in the proxy, or a socket that only operators reach"
		f.Text = fmt.Sprintf("PrivateData=%s hides from users what the pages at web.listen show all who reach them", strings.Join(open, ","))
	default:
		f.Level, f.Fix = live.Warn, "a proxy that lets only operators in"
		f.Text = fmt.Sprintf("PrivateData=%s: the pages show nodes and reservations to each user, and jobs to their own users alone", strings.Join(open, ","))
	}
	return []live.Finding{f}
}
