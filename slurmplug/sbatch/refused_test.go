package sbatch

import (
	"errors"
	"path/filepath"
	"testing"
)

// refusedLater are command lines whose first component sbatch reads to its end, and shows to a
// cli_filter, before it refuses a later one: none is ever submitted.
var refusedLater = []submission{
	{args: []string{"--comment", ":x", "--mem-per-gpu=2G", "--no-kill", "--tmp=1G", "./s.sh", ":"},
		script: "#!/bin/sh\n#SLURM hetjob\n#SBATCH '--get-user-env=5L'\t\"--comment\"\t\"hetjob\" # why\n#SBATCH hetjob # x\n#SBATCH -HWW\t-O\"Ok\" \"--mem\" '0' #why\n#SBATCH'--comment' \"a b\"  \"--wckey\" say\\ \\\"hi\\\"\t\n#SBATCH \"--no-requeue\"  --spread-job\t-WWo\\%j\t\ntrue\n"},
	{args: []string{"--comment=prio:x"},
		script: "#!/bin/bash -l\n#SLURM --comment  =\"\" \"--comment=\ttab\" --\"mem-per-gpu\" '2G'  \n#SBATCH --\"nice\" \"--comment=--hold\"\t\n#SBATCH hetjob\n#SBATCH -n\"3\"  \n#SBATCH\t'--get-user-env=S'  \"-He\xe2\x80\x8b\"\t-a  1-10\\%2 # why\n#SBATCH\"-sv\x10\"\t'--comment'\t$H\"OME\" --comment = \ntrue\n"},
	{args: []string{"--reservation= lead", "./s.sh"}, env: []string{"SBATCH_HINT=nomultithread", "SLURM_CLUSTERS=o"},
		script: "#! /usr/bin/env python3\n#SBATCH --\"commen\" b1\t--get-user-env=1 --ntasks-per-socket=2\t#why\n#SBATCH hetjob # x\n#SBATCH\t\"--comment\"\t'b1'\t\n#SBATCH--\"comment\" \"\"\t'--comment' \"a\" \"--get-user-env=S\"  \n#PBS\t-l nodes=2:ppn=3\n#SBATCH \"-w\"  ./\"nodes.txt\" \"--comment= lead\" \ntrue\ntr"},
	{args: []string{"--prefer=b1", "--comment=$HOME", ":", "-e lead", "--comment", "prio", ":", "--comment", ""},
		script: "#! /usr/bin/env python3\n#SBATCH hetjob\n#SBATCH '--comment' '[1-3]' '--comment'\t\"-N\"\t\n#SLURM \"--wait-all-nodes=1\" --comment \"a=b\" \n#SBATCH\"--export\"  A=\"'x,y',B=2\" \n#SBATCH\t'--comment' \"\"\t\n"},
	{args: []string{"--get-user-env=S", "--cpu-fre", "low-high", "./s.sh"}, env: []string{"SBATCH_PROFILE=all"},
		script: "#!/bin/sh -e # x\n#SBATCH --\"reboot\"  \"-L\" 'a,b' \n#SBATCH--comment=\\* # why\n#SBATCH hetjob # x\n#SBATCH\t--comment=%j  --comment=say\\ \\\"hi\\\" -OQp 'say \"hi\"'  \ntrue\n"},
	{args: []string{"--quiet", "--comment=two words", "./s.sh", "é"},
		script: "#!/bin/sh\n#SBATCH\t'--mi'  '07'  \"--comment=back\\\\slash\" \"--no-kill=no\" \n#SBATCHhetjob\n#SBATCH --requeue '-HOH' --\"test-only\"  stray\n#SLURM \"--constraint=end\\\\\" stray\n"},
	{args: []string{"--partition=back\\slash", "--distribution=cyclic:block", "--parsable"},
		script: "#!/bin/bash -l\n#SBATCH\t--\"comment=x prio:type=te&v=1\"  \n#SBATCH hetjob\n#SBATCH '--comment' \"trail \" # why\n#SBATCH\t\"--requeue\"  --comment=a,b\t'--wrap=echo \\'a b\\''  \n#SBATCH '--mem-per-' 2G  --\"nice\" \n"},
}

// What a later component has wrong makes sbatch refuse the whole submission; the components before it are
// read all the same, as a cli_filter sees them.
func TestRefusedInALaterComponent(t *testing.T) {
	o := newOracle(t)
	dir := t.TempDir()
	comments := []string{":x", "prio:x", "b1", "$HOME", "*", "two words", "x prio:type=te&v=1"}
	for i, s := range refusedLater {
		s.args = append([]string{"--gpus=1"}, s.args...) // or sbatch stops at memory by GPU in the first
		write(t, filepath.Join(dir, "s.sh"), s.script)
		a := o.ask(t, dir, s)
		if a.code == 0 || len(a.jobs) == 0 || !refusal.MatchString(a.stderr) {
			t.Fatalf("%q: sbatch exits with %d after %d components: %s", s.args, a.code, len(a.jobs), a.stderr)
		}
		jobs, _, err := resolve(o.grammar, dir, s)
		if !errors.As(err, new(*ScriptError)) || len(jobs) != len(a.jobs) {
			t.Fatalf("%q: %d components, %v", s.args, len(jobs), err)
		}
		if got := jobs[0].Set["comment"].Value; got != comments[i] {
			t.Errorf("%q: comment %q, want %q", s.args, got, comments[i])
		}
		for k := range jobs {
			if got := jobs[k].Set["comment"].Value; got != a.jobs[k]["comment"] {
				t.Errorf("%q: component %d: comment %q, sbatch has %q", s.args, k, got, a.jobs[k]["comment"])
			}
		}
	}
}
