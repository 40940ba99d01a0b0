package cli

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"slurmprio/priod/profile"
	"slurmprio/priod/profile/curve"
	"slurmprio/priod/workload"
	"slurmprio/slurmplug/jobtag"
	"slurmprio/slurmplug/sbatch"
)

func TestProfileUsage(t *testing.T) {
	for args, want := range map[string]string{
		"":                              "want a job as sbatch takes it",
		"--measure 0s -- x":             "--measure one above 0",
		"--patience 5s -- x":            "--patience 5s is shorter than --warmup and --measure together, 30s",
		"--budget 40s -- x":             "--budget 40s is not enough",
		"--budget 48h -- x":             "at most 24h",
		"--progress step([0-9] -- x":    "--progress: ",
		"--name a/b -- x":               `--name "a/b"`,
		"--dataset 1G -- x":             "--epoch-steps is missing",
		"--dataset 1G --epoch-steps 10": "--disk is missing",
		"--dataset much --epoch-steps 10 --disk 5 --working-set 1G -- x": `--dataset "much": want a size`,
		"--dataset 1G --epoch-steps -1 --disk 5 --working-set 1G -- x":   "want numbers above 0",
		"--warmup soon -- x": "warmup",
	} {
		var out, errs bytes.Buffer
		status := Main("test", append([]string{"priod", "profile"}, strings.Fields(args)...), &out, &errs)
		if status != exitUsage || !strings.Contains(errs.String(), want) || strings.Count(errs.String(), "\n") != 1 {
			t.Errorf("%s: exit status %d, %q; want %q", args, status, errs.String(), want)
		}
	}
}

func TestUsualProgress(t *testing.T) {
	pattern := regexp.MustCompile(usualProgress)
	for line, want := range map[string]float64{
		"step 17":                     17,
		"Step: 17/500, loss 0.3":      17,
		"iter=17":                     17,
		"Iteration [17/500]":          17,
		"global_step: 17.":            17,
		" 3%|#   | 17/500 [00:03<01:": 17,
		"Epoch 3, batch 17 of 20":     17,
		"epoch 17":                    -1,
		"batch size: 64":              -1,
		"stepping 4 of 5":             -1,
		"loss 0.17":                   -1,
	} {
		c := curve.NewCounter(pattern)
		_, ok := c.Read(line)
		if ok != (want >= 0) {
			t.Errorf("%q counts: %v", line, ok)
		} else if done, _ := c.Read(strings.Replace(line, "17", "27", 1)); ok && done != 27-want {
			t.Errorf("%q: %v steps later, want %v", line, done, 27-want)
		}
	}
}

// The options say exactly the tag; one that would be too long is not printed.
func TestOptionsOfATag(t *testing.T) {
	tag := jobtag.Tag{CPU: map[string]jobtag.Curve{"a100": {{Amount: 1, Speed: 0.3}, {Amount: 3, Speed: 1}}}, Speed: map[string]float64{"a100": 1}}
	options, err := tagOptions(tag)
	if want := []string{"--prio-cpu", "a100:1x0.3-3x1", "--prio-speed", "a100:1"}; err != nil || !slices.Equal(options, want) {
		t.Errorf("%q, %v", options, err)
	}
	for i := range 40 {
		tag.CPU[fmt.Sprint("type", i)] = tag.CPU["a100"]
	}
	if options, err := tagOptions(tag); options != nil || err != nil {
		t.Errorf("%d options, %v", len(options), err)
	}
}

// Only lines that work are printed: a script from standard input is gone, and
// --wrap has no lines to put one below.
func TestLinesToCopy(t *testing.T) {
	results := []profile.Result{{Type: profile.Type{Name: "a100", Share: 3, ShareMB: 1000}, Measured: []curve.Point{{CPUs: 3, Rate: 10}}}}
	for name, c := range map[string]struct {
		script            profile.Script
		submit, directive bool
	}{
		"file":           {profile.Script{Name: "train.sh"}, true, true},
		"standard input": {profile.Script{}, false, true},
		"wrap":           {profile.Script{Job: sbatch.Job{Set: map[string]sbatch.Setting{"wrap": {Value: "train"}}}}, true, false},
	} {
		out, err := shown(&c.script, results, make([]error, 1))
		if err != nil || strings.Contains(out, "\n    sbatchwrap --prio-cpu") != c.submit || strings.Contains(out, "\n    #PRIO --prio-cpu") != c.directive {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

// shown runs the verb's last part.
func shown(script *profile.Script, results []profile.Result, errs []error) (string, error) {
	var out, stderr bytes.Buffer
	app := App("test")
	app.Writer, app.ErrWriter = &out, &stderr
	app.Commands = slices.DeleteFunc(app.Commands, func(c *cli.Command) bool { return c.Name != "profile" })
	app.Commands[0].Action = func(c *cli.Context) error { return showProfile(c, script, results, errs, nil, 1) }
	err := app.Run([]string{"priod", "profile", "--", "--gres=gpu:1", "my train.sh"})
	return out.String(), err
}

// Where one type fails and another does not, both are told.
func TestHalfAProfile(t *testing.T) {
	good := profile.Result{Type: profile.Type{Name: "a100", Share: 3, ShareMB: 1000}, Job: "7", Unsteady: []int{12}, Stopped: true,
		Measured: []curve.Point{{CPUs: 12, Rate: 20}, {CPUs: 3, Rate: 10}}}
	out, err := shown(&profile.Script{Name: "my train.sh"}, []profile.Result{good, {}}, []error{nil, fmt.Errorf("v100: no room\x1b[31m")})
	if err == nil || !strings.HasPrefix(err.Error(), "v100: no room") {
		t.Errorf("error %v", err)
	}
	for _, want := range []string{
		"a100: 10 steps/s with the proportional share; gains nothing beyond 12 CPUs for each GPU\n",
		"12  20       ", "not steady", "The budget ended here",
		"\n    sbatchwrap --prio-cpu a100:3x1-12x2 --gres=gpu:1 'my train.sh'\n",
		"\n    #PRIO --prio-cpu a100:3x1-12x2\n", `name = "job"`,
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	_, entry, _ := strings.Cut(out, "\n[[workload]]")
	if _, err := workload.Parse("printed", "[[workload]]"+entry); err != nil {
		t.Error(err)
	}
}
