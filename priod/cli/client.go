package cli

import (
	"cmp"
	"os"
	"time"

	"slurmprio/priod/config"
	"slurmprio/slurmplug"
)

// newClient talks to the cluster that the configuration names; without a name,
// to that of SLURM_CONF or of Slurm's own default.
func newClient(cfg *config.Config) *slurmplug.Client { return newPatientClient(cfg, 0) }

// newPatientClient is newClient whose writes wait for their turn for so long; 0 for as
// long as a cycle may be held up.
func newPatientClient(cfg *config.Config, patience time.Duration) *slurmplug.Client {
	conf := cmp.Or(cfg.Slurm.Conf, os.Getenv("SLURM_CONF"))
	timeout := time.Duration(cfg.Slurm.CommandTimeout)
	return slurmplug.NewClient(
		slurmplug.NewExec(slurmplug.ExecOptions{BinDir: cfg.Slurm.BinDir, SlurmConf: conf}),
		slurmplug.Options{
			ReadTimeout: timeout, WriteTimeout: timeout, MaxWait: patience, WritesPerSecond: cfg.Limits.WritesPerSecond,
			AgentQueue: cfg.Limits.AgentQueue, DBDQueue: cfg.Limits.DBDQueue,
		})
}
