package config

import (
	"cmp"
	"os"
	"time"

	"slurmprio/slurmplug"
)

// Client talks to the cluster that the configuration names; without a name, to that of SLURM_CONF or of Slurm's own default.
// Its writes wait for their turn for so long; 0: for as long as a cycle may be held up.
func (c *Config) Client(patience time.Duration) *slurmplug.Client {
	opts := c.Constants.Commands
	opts.WriteTimeout, opts.MaxWait = opts.ReadTimeout, patience
	conf := cmp.Or(c.Slurm.Conf, os.Getenv("SLURM_CONF"))
	return slurmplug.NewClient(slurmplug.NewExec(slurmplug.ExecOptions{BinDir: c.Slurm.BinDir, SlurmConf: conf}), opts)
}
