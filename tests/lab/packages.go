package lab

import (
	"fmt"
	"os/exec"
	"strings"
	"sync"
)

// Version is that of the installed slurmd, such as "24.11.5"; "" when there is none.
var Version = sync.OnceValue(func() string {
	out, err := exec.Command(lookup("slurmd"), "-V").Output() // "slurm-wlm 22.05.8", "slurm 26.05.5"
	if words := strings.Fields(string(out)); err == nil && len(words) == 2 {
		return words[1]
	}
	return ""
})

// AtLeast reports whether the installed Slurm is of the release major.minor or a later one.
func AtLeast(major, minor int) bool {
	a, b := 0, 0
	_, err := fmt.Sscanf(Version(), "%d.%d", &a, &b)
	return err == nil && (a > major || a == major && b >= minor)
}

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

// Records is the option that makes squeue print records of an array apart that have
// values of their own: "--array-unique", or "--array" since 23.02, which prints a line
// for each task.
func Records() string {
	if AtLeast(23, 2) {
		return "--array"
	}
	return "--array-unique"
}
