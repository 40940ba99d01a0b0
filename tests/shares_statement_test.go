package tests

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"slurmprio/tests/lab"
)

// What an account used is what sacct and sreport have of the same hours; what it lent, used and left idle is its share; and the
// job that came back to it, and the GPUs that others left for it, are counted.
func TestStatementIsThatOfAccounting(t *testing.T) {
	e := evictableOn(t, newOwnSite(t, evicting+"[[share]]\naccount = \""+lab.Physics+"\"\ngpus = 8\ngpu_type = \"t4\"\n"))
	guests := []string{e.worker("a", "t4:4", endless, 5, "save", "--account="+lab.Biology), e.worker("b", "t4:4", endless, 5, "save", "--account="+lab.Biology)}
	e.begun("a", "b")
	d := e.daemon()
	d.waitLog("started")
	begun := time.Now()
	e.submit("--account="+lab.Physics, "--gres=gpu:t4:4", "--time=60", "--wrap", "sleep 12") // returns
	e.submit("--account="+lab.Physics, "--gres=gpu:a100:1", "--time=60", "--wrap", "sleep 7")
	sacct := func(account, fields string) (rows [][]string) {
		for line := range strings.Lines(e.slurm("sacct", "--allusers", "--duplicates", "--noheader", "--allocations", "--parsable2", "--accounts="+account, "--format="+fields)) {
			rows = append(rows, strings.Split(strings.TrimSpace(line), "|"))
		}
		return rows
	}
	completed := func() (n int) {
		for _, row := range sacct(lab.Physics, "State") {
			if row[0] == "COMPLETED" {
				n++
			}
		}
		return n
	}
	e.wait("the owner's jobs to end", func() bool { return completed() == 2 })
	e.slurm("scancel", guests...)
	e.wait("the guests' ends in accounting", func() bool {
		for _, row := range sacct(lab.Biology, "State") {
			if row[0] == "RUNNING" || row[0] == "PENDING" {
				return false
			}
		}
		return e.slurm("squeue", "--noheader", "--format=%i") == ""
	})
	d.stop()

	used := 0.0 // GPU-seconds
	for _, row := range sacct(lab.Physics, "AllocTRES,ElapsedRaw") {
		seconds, err := strconv.ParseFloat(row[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		for tres := range strings.SplitSeq(row[0], ",") {
			if gpus, is := strings.CutPrefix(tres, "gres/gpu="); is {
				n, err := strconv.ParseFloat(gpus, 64)
				if err != nil {
					t.Fatal(err)
				}
				used += n * seconds
			}
		}
	}
	reported := -1.0
	library := anHourLater(t)
	e.wait("sreport to have the hour", func() bool { // slurmdbd sums up what ended
		from, until := begun.Add(-time.Hour).Truncate(time.Hour).Format(slurmTime), time.Now().Add(time.Hour).Format(slurmTime)
		e.slurm("sacctmgr", "--immediate", "rollup", from, until)
		out := e.slurm("env", "LD_PRELOAD="+library, "sreport", "--parsable2", "--noheader", "-t", "Seconds", "--tres=gres/gpu", "cluster", "AccountUtilizationByUser", "Accounts="+lab.Physics, "Start="+from, "End="+until)
		for line := range strings.Lines(out) {
			row := strings.Split(strings.TrimSpace(line), "|")
			if len(row) > 5 && row[1] == lab.Physics && row[2] == "" {
				reported, _ = strconv.ParseFloat(row[5], 64)
			}
		}
		return reported > 0
	})

	type account struct {
		Account                                                                          string
		Entitled_gpu_h, Used_gpu_h, Within_gpu_h, Lent_gpu_h, Idle_gpu_h, Borrowed_gpu_h float64
		Returns, Missed, Evicted_gpus, Evicted_for_gpus                                  int
		Return_worst_s                                                                   *float64
	}
	var told struct{ Accounts []account }
	for range 2 { // each reads accounting once; the first ends what ran when the one before it stopped
		d = e.daemon()
		d.waitLog("started")
		d.cycles(1)
		d.stop()
	}
	e.json(&told, "report", "shares", "--since", "2h")
	if len(told.Accounts) != 1 || math.Abs(3600*told.Accounts[0].Used_gpu_h-used) > used/1000 {
		t.Fatalf("%+v, and sacct has %g GPU-seconds", told, used)
	}
	t.Log(e.must("report", "shares", "--since", "2h"))
	if math.Abs(reported-used) > used/1000 {
		t.Errorf("sreport has %g GPU-seconds, sacct %g", reported, used)
	}
	x := told.Accounts[0]
	if sum := x.Within_gpu_h + x.Lent_gpu_h + x.Idle_gpu_h; math.Abs(sum-x.Entitled_gpu_h) > 1e-6 || x.Within_gpu_h <= 0 || x.Lent_gpu_h <= 0 || x.Borrowed_gpu_h <= 0 {
		t.Errorf("%+v", x)
	}
	if x.Account != lab.Physics || x.Returns != 1 || x.Missed != 0 || x.Evicted_gpus != 0 || x.Evicted_for_gpus != 4 || x.Return_worst_s == nil {
		t.Errorf("%s", fmt.Sprintf("%+v", x))
	}
	goodputIsOfAccounting(e, used)
}

// goodputIsOfAccounting: the same account held as much by the report of goodput, and what the eviction cost is lost to its guest.
func goodputIsOfAccounting(e *evictable, used float64) {
	e.Helper()
	type of struct {
		Name                             string
		Gpu_h, Good_gpu_h, Evicted_gpu_h float64
	}
	var told struct {
		By_account []of
		Total      of
		Cluster    []struct {
			Part  string
			Gpu_h float64
		}
	}
	e.json(&told, "report", "goodput", "--since", "2h")
	text := e.must("report", "goodput", "--since", "2h")
	e.Log(text)
	owner := slices.IndexFunc(told.By_account, func(x of) bool { return x.Name == lab.Physics })
	if owner < 0 || math.Abs(3600*told.By_account[owner].Gpu_h-used) > used/1000 || told.By_account[owner].Evicted_gpu_h != 0 {
		e.Errorf("%+v, and sacct has %g GPU-seconds of %s", told, used, lab.Physics)
	}
	if told.Total.Evicted_gpu_h <= 0 || told.Total.Good_gpu_h+told.Total.Evicted_gpu_h > told.Total.Gpu_h+1e-9 || len(told.Cluster) == 0 || !strings.Contains(text, "eviction") {
		e.Errorf("%+v", told)
	}
}

// slurmTime is a time as Slurm reads it.
const slurmTime = "2006-01-02T15:04:05"

// anHourLater is a library with which a program takes the time for an hour later: sreport shows no hour that has not ended.
func anHourLater(t *testing.T) string {
	t.Helper()
	source, library := filepath.Join(t.TempDir(), "later.c"), filepath.Join(openDir(t, 0o755), "later.so")
	const code = "#include <time.h>\ntime_t time(time_t *at) { struct timespec now; clock_gettime(CLOCK_REALTIME, &now); if (at) *at = now.tv_sec + 3600; return now.tv_sec + 3600; }\n"
	if err := os.WriteFile(source, []byte(code), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("cc", "-shared", "-fPIC", "-o", library, source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return library
}
