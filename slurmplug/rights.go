package slurmplug

import (
	"context"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"
)

// OwnRights says what Slurm lets this process do. Slurm trusts root and
// SlurmUser with everything (conf says who that is); others have the AdminLevel
// that sacctmgr shows, which needs slurmdbd.
func (c *Client) OwnRights(ctx context.Context, conf Config) (Rights, error) {
	return c.rightsOf(ctx, conf, os.Geteuid())
}

func (c *Client) rightsOf(ctx context.Context, conf Config, uid int) (Rights, error) {
	r := Rights{User: strconv.Itoa(uid), Level: Administrator}
	if u, err := user.LookupId(r.User); err == nil {
		r.User = u.Username
	}
	if _, slurmUID, ok := conf.SlurmUser(); ok && uint32(uid) == slurmUID {
		r.Why = "SlurmUser"
		return r, nil
	}
	if uid == 0 {
		r.Why = "uid 0"
		return r, nil
	}
	r.Level, r.Why = NoAdmin, "sacctmgr"
	out, err := c.sacctmgr(ctx, "user", "name="+r.User, "format=User,AdminLevel")
	if err != nil {
		return r, err
	}
	r.Level, err = parseAdminLevel(out, r.User)
	return r, err
}

// parseAdminLevel finds a user in lines "USER|LEVEL"; one that accounting does
// not know has no rights.
func parseAdminLevel(out, name string) (AdminLevel, error) {
	for line := range strings.Lines(out) {
		who, level, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "|")
		if !ok {
			return NoAdmin, doubtful("sacctmgr show user", "%q is not USER|LEVEL", firstLine([]byte(line)))
		}
		if who != name {
			continue
		}
		switch l := AdminLevel(level); l {
		case NoAdmin, Operator, Administrator:
			return l, nil
		}
		return NoAdmin, fmt.Errorf("sacctmgr show user: AdminLevel %q of %q is not known", level, name)
	}
	return NoAdmin, nil
}
