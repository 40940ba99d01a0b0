package advise

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"

	"slurmprio/slurmplug/sbatch"
)

func read(t testing.TB, args ...string) (Request, error) {
	t.Helper()
	grammar := sbatch.For(2205)
	cmd, err := grammar.ParseArgs(args)
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := grammar.Resolve(cmd, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return Read(jobs[0])
}

// What Slurm makes of the same options (22.05.8): GPUs, nodes (0: any number),
// CPUs and MB of the whole job.
func TestRead(t *testing.T) {
	for args, want := range map[string]string{
		"--gres=gpu:1": "1  nodes 1 cpus 1 mem 0 limit 0s",
		"--gres=gpu:a100:2 -c 8 --mem=10G -t 2:00:00":     "2 a100 nodes 1 cpus 8 mem 10240 limit 2h0m0s",
		"--gres=gpu:2,craynetwork:1 -N2 -t 1-0":           "4  nodes 2 cpus 2 mem 0 limit 24h0m0s",
		"--gres=gpu -N 2-4 --ntasks-per-node=3":           "2  nodes 2 cpus 6 mem 0 limit 0s",
		"--gpus=8":                                        "8  nodes 0 cpus 1 mem 0 limit 0s",
		"-G v100:8 --cpus-per-gpu=4 --mem-per-gpu=1G":     "8 v100 nodes 0 cpus 32 mem 8192 limit 0s",
		"--gpus-per-node=t4:2 -N 3 --mem=1000":            "6 t4 nodes 3 cpus 3 mem 3000 limit 0s",
		"--gpus-per-task=1 -n 4 -c 2 --mem-per-cpu=500":   "4  nodes 0 cpus 8 mem 4000 limit 0s",
		"--gpus=4 --ntasks-per-gpu=2 -c 3":                "4  nodes 0 cpus 24 mem 0 limit 0s",
		"--gpus=4 --gres=gpu:a100:4":                      "4 a100 nodes 0 cpus 1 mem 0 limit 0s",
		"--gres=gpu:4 -n 8 --ntasks-per-node=4 -t 0":      "8  nodes 2 cpus 8 mem 0 limit -1ns",
		"--gres=gpu:1 -t 30:15":                           "1  nodes 1 cpus 1 mem 0 limit 31m0s",
		"--gres=gpu:1 --exclusive":                        "1  nodes 1 cpus 1 mem 0 limit 0s whole",
		"--gres=gpu:1 --exclusive=user --mincpus=5":       "1  nodes 1 cpus 5 mem 0 limit 0s",
		"--gres=gpu:1 --mem=0 -w n[1-2] -x n3 -p a,b":     "1  nodes 1 cpus 1 mem 0 limit 0s whole on n1,n2 not n3 in a,b",
		"--gres=gpu:1 --array=1-9 --begin=tomorrow -H":    "1  nodes 1 cpus 1 mem 0 limit 0s 3 notes",
		"--gres=gpu:1 -t UNLIMITED --qos te -C a&b -J me": "1  nodes 1 cpus 1 mem 0 limit -1ns te a&b me",
	} {
		r, err := read(t, strings.Fields(args)...)
		got := fmt.Sprintf("%d %s nodes %d cpus %d mem %d limit %v", r.GPUs, r.GPUType, r.Nodes, r.CPUs, r.MemMB, r.Limit)
		for _, more := range []struct {
			is   bool
			text string
		}{{r.Whole, "whole"}, {r.On != nil, "on " + strings.Join(r.On, ",")}, {r.Not != nil, "not " + strings.Join(r.Not, ",")},
			{r.Partitions != nil, "in " + strings.Join(r.Partitions, ",")}, {r.QOS != "", r.QOS}, {r.Features != "", r.Features}, {r.Name != "", r.Name},
			{len(r.Notes) > 1, fmt.Sprintf("%d notes", len(r.Notes))}} {
			if more.is {
				got += " " + more.text
			}
		}
		if err != nil || got != want {
			t.Errorf("%s: %v\n got %s\nwant %s", args, err, got, want)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	for args, want := range map[string]string{
		"-n 4":                                "the job requests no GPU",
		"--gres=none":                         "the job requests no GPU",
		"--gres=gpu:0":                        "the job requests no GPU",
		"--gres=gpu:a100:1,gpu:v100:1":        "several GPU types at once",
		"--gpus=a100:1,v100:1":                "want one GPU type",
		"--gpus=a100:1 --gres=gpu:v100:1":     "different GPU types",
		"--gres=gpu:\x1b[2J":                  "GRES",
		"--gres=gpu:1 --reservation=x":        "--reservation",
		"--gres=gpu:1 -M other":               "--clusters",
		"--gres=gpu:1 -t soon":                "--time",
		"--gres=gpu:1 -N many":                "--nodes \"many\": want a number from 1",
		"--gres=gpu:1 -N 0":                   "--nodes \"0\": want a number from 1",
		"--gres=gpu:1 -n -1":                  "--ntasks \"-1\"",
		"--gres=gpu:1 --mem=much":             "--mem",
		"--gres=gpu:1 --mem=99999999T":        "more than any node has",
		"--gres=gpu:65536 -N 1000000":         "no cluster has so many",
		"--gres=gpu:1 -w n[1-":                "--nodelist",
		"--gres=gpu:1 --gpus-per-socket=1":    "--gpus-per-socket",
		"--gres=gpu:1 -N 99999 --mem=1024T":   "no cluster has so much",
		"--gres=gpu:1 -n 1000000 -c 1000000":  "no cluster has so many",
		"--gres=gpu:1 --cpus-per-gpu=9999999": "--cpus-per-gpu",
	} {
		_, err := read(t, strings.Fields(args)...)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("%q: %v; want %q", args, err, want)
		}
	}
}

// FuzzAdvise: whatever is asked for, there is an error of one printable line or an
// answer for each GPU type, and what fits is no larger than the cluster.
func FuzzAdvise(f *testing.F) {
	f.Add("--gres=gpu:1\n-t\n10\n--mem=4G")
	f.Add("--gpus=a100:8\n-N2-4\n-n3\n--cpus-per-gpu=5\n--mem-per-cpu=1T\n-Cib&(a100|v100)")
	f.Add("--gpus-per-node=4\n-N\n1000000\n--exclusive\n-wn[0-2]\n-x\nn9\n--time=0\n-pgpu,gpu")
	f.Add("--gpus-per-task=1048575\n-n1048575\n--mincpus=1048575\n-C[ib*9]")
	f.Add("-G(:" + strings.Repeat("z", 4000))
	grammar := sbatch.For(2205)
	f.Fuzz(func(t *testing.T, joined string) {
		cmd, err := grammar.ParseArgs(strings.Split(joined, "\n"))
		if err != nil {
			return
		}
		jobs, err := grammar.Resolve(cmd, nil, nil)
		if err != nil {
			return
		}
		r, err := Read(jobs[0])
		if err == nil {
			site := small()
			site.run(0, 3, time.Minute, time.Hour)
			site.wait(4, "a100", time.Hour)
			var a *Advice
			if a, err = Give(site, &r, speeds(1, 0.5), noRate); err == nil {
				for _, x := range a.Types {
					if x.Fits && (r.GPUs > 8 || r.CPUs > 32 || r.MemMB > 128000) || x.Fits == (x.Why != "") && x.Start.Known() || x.Start < 0 {
						t.Fatalf("%q: %+v of %+v", joined, x, r)
					}
				}
				return
			}
		}
		if text := err.Error(); len(text) > 2000 || strings.ContainsFunc(text, func(c rune) bool { return !unicode.IsPrint(c) }) {
			t.Fatalf("%q", text)
		}
	})
}
