package lab

import "strings"

// programs that a lab runs, and the Debian package of each.
var programs = []struct{ name, pkg string }{
	{"munged", "munge"},
	{"mariadbd", "mariadb-server"},
	{"mariadb-install-db", "mariadb-server"},
	{"slurmdbd", "slurmdbd"},
	{"slurmctld", "slurmctld"},
	{"slurmd", "slurmd"},
	{"sbatch", "slurm-client"},
	{"squeue", "slurm-client"},
	{"sinfo", "slurm-client"},
	{"scontrol", "slurm-client"},
	{"sacct", "slurm-client"},
	{"sacctmgr", "slurm-client"},
	{"sprio", "slurm-client"},
	{"sdiag", "slurm-client"},
	{"scancel", "slurm-client"},
}

// Missing names the programs that a lab needs and this machine lacks, each as
// "PROGRAM (Debian package PACKAGE)".
func Missing() []string {
	var missing []string
	for _, p := range programs {
		if lookup(p.name) == "" {
			missing = append(missing, p.name+" (Debian package "+p.pkg+")")
		}
	}
	return missing
}

// MissingError is returned by Start on a machine without Slurm.
type MissingError struct{ Programs []string }

func (e *MissingError) Error() string {
	return "lab: not installed: " + strings.Join(e.Programs, ", ")
}
