package tests

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"slurmprio/tests/lab"
)

// What the Lua files cost slurmctld: the time that a submission takes there (sdiag), without and with them, with four
// class rules and four tables of consent. `-benchtime 5000x` submits 5,000 jobs each.
func BenchmarkLuaSubmissions(b *testing.B) {
	var rules strings.Builder
	rules.WriteString("[steering]\nenabled = true\n[allocation]\npolicy = \"max-min\"\n")
	for i := range 4 {
		fmt.Fprintf(&rules, "[[class]]\nname = \"c%d\"\ntype = \"te\"\npartitions = [\"p%d\"]\nqos = [\"q1\", \"q2\"]\nmax_time = \"1h\"\n[[consent]]\naccounts = [\"a%d\"]\ngpu_type = true\n", i, i, i)
	}
	config := filepath.Join(b.TempDir(), "priod.toml")
	if err := os.WriteFile(config, []byte(rules.String()), 0o600); err != nil {
		b.Fatal(err)
	}
	made, err := exec.Command(filepath.Join(bin, "priod"), "--config", config, "config", "lua", "--hold", "20s").Output()
	if err != nil {
		b.Fatal(err)
	}
	with := lab.Options{ExtraConf: []string{"JobSubmitPlugins=lua"}, ExtraFiles: map[string]string{
		"prio.lua": luaFile(b, "prio.lua"), "job_submit.lua": luaFile(b, "job_submit.lua"), "prio_rules.lua": string(made),
	}}
	const submitted = `(?m)^\s*REQUEST_SUBMIT_BATCH_JOB\s.*count:(\d+)\s+ave_time:\d+\s+total_time:(\d+)`
	for _, c := range []struct {
		name    string
		options lab.Options
	}{{"slurm", lab.Options{}}, {"lua", with}} {
		b.Run(c.name, func(b *testing.B) {
			l := lab.ForTest(b, c.options)
			begun := time.Now()
			for range b.N {
				if _, err := l.Sbatch(b.Context(), "--hold", "--output=/dev/null", "--gres=gpu:1", "--time=60", "--comment=prio:ckpt=600&speed=a100:1,v100:0.45&type=be&v=1", "--wrap", "true"); err != nil {
					b.Fatal(err)
				}
			}
			all := time.Since(begun)
			out, err := l.Run(b.Context(), "sdiag")
			m := regexp.MustCompile(submitted).FindStringSubmatch(out)
			if err != nil || m == nil {
				b.Fatalf("sdiag: %v\n%s", err, out)
			}
			count, _ := strconv.Atoi(m[1])
			total, _ := strconv.Atoi(m[2])
			b.ReportMetric(float64(total)/float64(count), "slurmctld-us/op")
			b.ReportMetric(all.Seconds()*1e3/float64(b.N), "sbatch-ms/op")
			b.ReportMetric(0, "ns/op")
		})
	}
}
