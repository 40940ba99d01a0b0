package slurmplug_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slurmprio/slurmplug"
	"slurmprio/tests/lab"
)

func TestMain(m *testing.M) { os.Exit(lab.Main(m, labOptions("shared"))) }

// labOptions describe a cluster with typed, untyped and mixed GPUs.
func labOptions(name string) lab.Options {
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("plug-%s-%d", name, os.Getpid()))
	gpus := "File=" + dir + "/dev/gpu"
	return lab.Options{
		Dir: dir,
		Nodes: []lab.NodeSpec{
			{Count: 2, GPUType: "a100", GPUs: 4, CPUs: 8},
			{Count: 2, GPUType: "v100", GPUs: 4, CPUs: 8},
			{Count: 1, Prefix: "mix-", CPUs: 8, Features: []string{"a100", "t4"}, Extra: "Gres=gpu:a100:2,gpu:t4:2"},
			{Count: 1, Prefix: "any-", CPUs: 8, GPUs: 2},
		},
		Partitions: []string{
			"gpu Nodes=ALL Default=YES MaxTime=INFINITE State=UP",
			"interactive Nodes=a100-[1-2],v100-1 MaxTime=1-00:00:00 DefaultTime=01:00:00 State=UP PriorityTier=10 PriorityJobFactor=10 AllowAccounts=physics,biology AllowQos=te,normal",
			"closed Nodes=any-1 State=DOWN Hidden=YES",
		},
		ExtraConf: []string{
			"PriorityWeightTRES=CPU=100,Mem=200,GRES/gpu=300.5",
			"AccountingStorageTRES=gres/gpu,gres/gpu:a100,gres/gpu:v100,gres/gpu:t4",
			"MessageTimeout=5",
		},
		ExtraFiles: map[string]string{"gres.conf": strings.Join([]string{
			"NodeName=a100-[1-2] Name=gpu Type=a100 " + gpus + "[0-3]",
			"NodeName=v100-[1-2] Name=gpu Type=v100 " + gpus + "[0-1] Cores=0-3",
			"NodeName=v100-[1-2] Name=gpu Type=v100 " + gpus + "[2-3] Cores=4-7",
			"NodeName=mix-1 Name=gpu Type=a100 " + gpus + "[0-1]",
			"NodeName=mix-1 Name=gpu Type=t4 " + gpus + "[2-3]",
			"NodeName=any-1 Name=gpu " + gpus + "[0-1]",
		}, "\n") + "\n"},
	}
}

// clientOf reads and writes a lab as priod would.
func clientOf(l *lab.Lab, o slurmplug.Options) *slurmplug.Client {
	return slurmplug.NewClient(slurmplug.NewExec(slurmplug.ExecOptions{SlurmConf: l.Conf()}), o)
}

// asUser is a Runner that runs Slurm's programs as another user of a lab.
type asUser struct{ client lab.Client }

func (a asUser) Run(ctx context.Context, cmd slurmplug.Command) (slurmplug.Output, error) {
	var stdout, stderr bytes.Buffer
	c := a.client.Command(ctx, cmd.Name, cmd.Args...)
	c.Env = append(c.Env, "SLURM_TIME_FORMAT=%s", "SLURM_BITSTR_LEN=0", "INPUTRC=/dev/null")
	c.Stdin, c.Stdout, c.Stderr = bytes.NewReader(cmd.Stdin), &stdout, &stderr
	if cmd.Merge {
		c.Stderr = &stdout
	}
	err := c.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = &slurmplug.CommandError{Command: cmd.Name, Kind: slurmplug.ErrExit, Status: exit.ExitCode(), Message: stderr.String()}
	}
	return slurmplug.Output{Stdout: stdout.Bytes(), Stderr: stderr.Bytes()}, err
}

// submit submits a job that sleeps, with a comment to know it by.
func submit(t testing.TB, c lab.Client, comment string, args ...string) string {
	t.Helper()
	id, err := c.Sbatch(t.Context(), append([]string{"--output=/dev/null", "--job-name=" + comment, "--comment=" + comment, "--wrap=sleep 600"}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// run runs a command in the lab and fails the test when it fails.
func run(t testing.TB, c lab.Client, name string, args ...string) string {
	t.Helper()
	out, err := c.Run(t.Context(), name, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// eventually asks until condition holds.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(lab.Patience); !condition(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}
