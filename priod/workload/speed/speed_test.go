package speed_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"slurmprio/priod/workload"
	"slurmprio/priod/workload/speed"
	"slurmprio/slurmplug/jobtag"
)

const table = `
[[workload]]
name = "resnet"
aliases = ["ResNet-50"]
speed.a100 = { 1 = 30.0, 2 = 50.0 }
speed.v100 = { 1 = 10.0 }
speed.t4 = { 1 = 0.0 }

[[workload]]
name = "old"
speed.tesla_v100 = { 1 = 4.0 }
speed.a100 = { 1 = 8.0 }
`

func workloads(t *testing.T) *workload.Table {
	t.Helper()
	w, err := workload.Parse("test", table)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// site with two programs that history knows well: w0 as 6:2:1 on a100, v100, t4
// and a user's job by its name as 1:1:4.
func taught() *speed.Knowledge {
	var h speed.History
	for _, p := range []struct {
		program speed.Program
		speeds  map[string]float64
	}{
		{speed.Program{Workload: "w0", GPUs: 1}, map[string]float64{"a100": 6, "v100": 2, "t4": 1}},
		{speed.Program{Workload: "resnet", GPUs: 1}, map[string]float64{"a100": 1, "v100": 1}},
		{speed.Program{User: "ann", Name: "train", GPUs: 1}, map[string]float64{"a100": 1, "v100": 1, "t4": 4}},
	} {
		for range 20 {
			for gpuType, v := range p.speeds {
				h.Add(speed.Run{Program: p.program, Seconds: map[string]float64{gpuType: 100 / v}, Work: 100})
			}
		}
	}
	return h.Learn()
}

func tag(t *testing.T, text string) jobtag.Tag {
	t.Helper()
	tag, err := jobtag.Parse("prio:v=1" + text)
	if err != nil {
		t.Fatal(err)
	}
	return tag
}

func TestTheFirstThatAnswers(t *testing.T) {
	set := speed.Settings{Types: map[string]float64{"a100": 2.5, "h100": 5}, Formerly: map[string]string{"tesla_v100": "v100"}}
	cluster := []string{"a100", "t4", "v100"}
	type want struct {
		speed  float64
		source speed.Source
	}
	for name, c := range map[string]struct {
		tag, user, job string
		gpus           int
		types          []string
		k              *speed.Knowledge
		want           []want
		note           string
	}{
		"the tag":                        {tag: "&speed=a100:2,v100:1,t4:0.5", k: taught(), want: []want{{1, speed.Tag}, {.25, speed.Tag}, {.5, speed.Tag}}},
		"the tag, then the workload":     {tag: "&speed=a100:2&workload=resnet", want: []want{{1, speed.Tag}, {0, speed.Workload}, {1. / 3, speed.Workload}}},
		"the tag, then history":          {tag: "&speed=v100:4&workload=w0", k: taught(), want: []want{{1, speed.Past}, {1. / 6, speed.Past}, {1. / 3, speed.Tag}}, note: "unknown workload"},
		"a workload by its alias":        {tag: "&workload=resnet", want: []want{{1, speed.Workload}, {0, speed.Workload}, {1. / 3, speed.Workload}}},
		"a workload on other GPUs":       {tag: "&workload=resnet", gpus: 4, want: []want{{1, speed.Default}, {1, speed.None}, {1, speed.None}}, note: "on none of this cluster's GPU types with 4 GPUs"},
		"history of a name":              {user: "ann", job: "train", k: taught(), want: []want{{.25, speed.Past}, {1, speed.Past}, {.25, speed.Past}}},
		"another user's job of the name": {user: "bob", job: "train", k: nil, want: []want{{1, speed.Default}, {1, speed.None}, {1, speed.None}}},
		"the type":                       {types: []string{"a100", "h100"}, want: []want{{.5, speed.Default}, {1, speed.Default}}},
		"the type, then nothing":         {types: []string{"a100", "h100", "l4"}, want: []want{{.5, speed.Default}, {1, speed.Default}, {math.Sqrt(.5), speed.None}}},
		"nothing":                        {types: []string{"l4", "l40"}, want: []want{{1, speed.None}, {1, speed.None}}},
		"an unknown workload":            {tag: "&workload=nobody", want: []want{{1, speed.Default}, {1, speed.None}, {1, speed.None}}, note: `unknown workload "nobody"`},
		"a type renamed in the tag":      {tag: "&speed=a100:2,tesla_v100:1,t4:1", want: []want{{1, speed.Tag}, {.5, speed.Tag}, {.5, speed.Tag}}},
		"old and new name in the tag":    {tag: "&speed=a100:2,tesla_v100:9,t4:1,v100:1", want: []want{{1, speed.Tag}, {.5, speed.Tag}, {.5, speed.Tag}}, note: "tesla_v100 is passed over: the type is called v100 now"},
		"a type renamed in the table":    {tag: "&workload=old", types: []string{"a100", "v100"}, want: []want{{1, speed.Workload}, {.5, speed.Workload}}},
		"a type that is gone":            {tag: "&speed=a100:2,k80:1", types: []string{"a100"}, want: []want{{1, speed.Tag}}, note: "the tag's speed on k80 is of no use"},
		"tag against workload":           {tag: "&speed=a100:1,v100:1&workload=resnet", types: []string{"a100", "v100"}, want: []want{{1, speed.Tag}, {1, speed.Tag}}, note: "the job's tag is believed on a100, and workloads.toml contradicts"},
		"workload against history":       {tag: "&workload=resnet", types: []string{"a100", "v100"}, k: taught(), want: []want{{1, speed.Workload}, {1. / 3, speed.Workload}}, note: "workloads.toml is believed on v100, and this site's history contradicts"},
		"never, says the table":          {tag: "&speed=t4:1&workload=resnet", types: []string{"a100", "t4"}, want: []want{{1, speed.Workload}, {1, speed.Tag}}, note: "the job's tag is believed on t4, and workloads.toml contradicts"},
	} {
		types := c.types
		if types == nil {
			types = cluster
		}
		j := speed.Job{Tag: tag(t, c.tag), User: c.user, Name: c.job, GPUs: max(c.gpus, 1)}
		got := set.For(&j, types, workloads(t), c.k)
		for i, w := range c.want {
			a := got.Speeds[i]
			if math.Abs(a.Speed-w.speed) > 0.02*w.speed || a.Source != w.source || a.GPUType != types[i] || !(a.Factor >= 1) {
				t.Errorf("%s: %s: got %+v, want %v by %s", name, types[i], a, w.speed, w.source)
			}
		}
		notes := strings.Join(got.Notes, "; ")
		if c.note == "" && notes != "" || !strings.Contains(notes, c.note) {
			t.Errorf("%s: notes %q, want %q", name, notes, c.note)
		}
	}
}

// A program that history has never seen is taken for a usual one, but only after
// what the operator says of types.
func TestAnUnseenProgram(t *testing.T) {
	var h speed.History
	for i := range 12 {
		for _, r := range []speed.Run{
			{Program: program(i), Seconds: map[string]float64{"a100": 10}, Work: 30},
			{Program: program(i), Seconds: map[string]float64{"v100": 30}, Work: 30},
		} {
			h.Add(r)
		}
	}
	k := h.Learn()
	j := speed.Job{User: "ann", Name: "new", GPUs: 1}
	types := []string{"a100", "v100"}
	got := (&speed.Settings{}).For(&j, types, nil, k).Speeds
	if got[1].Source != speed.Site || math.Abs(got[1].Speed-1./3) > 0.01 {
		t.Errorf("%+v", got)
	}
	got = (&speed.Settings{Types: map[string]float64{"a100": 2, "v100": 1}}).For(&j, types, nil, k).Speeds
	if got[1].Source != speed.Default || got[1].Speed != 0.5 {
		t.Errorf("%+v", got)
	}
}

// What history knows less surely than the source that it would take the place of it does not say.
func TestDoubtIsLeftToTheNext(t *testing.T) {
	var h speed.History
	r := rand.New(rand.NewPCG(1, 1))
	for i := range 6 { // how long a run is says little of the type
		gpuType := []string{"a100", "v100"}[i%2]
		h.Add(speed.Run{Program: speed.Program{User: "ann", Name: "train", GPUs: 1}, Seconds: map[string]float64{gpuType: 1000 * math.Exp(0.9*r.NormFloat64())}})
	}
	j, types, k := speed.Job{User: "ann", Name: "train", GPUs: 1}, []string{"a100", "v100"}, h.Learn()
	for name, c := range map[string]struct {
		told map[string]float64
		want speed.Source
	}{
		"surer than that all types are equal":  {nil, speed.Past},
		"less sure than the operator's speeds": {map[string]float64{"a100": 2, "v100": 1}, speed.Default},
	} {
		got := (&speed.Settings{Types: c.told}).For(&j, types, nil, k).Speeds
		if got[0].Source != c.want || got[1].Source != c.want {
			t.Errorf("%s: %+v, want %s", name, got, c.want)
		}
	}
}

// Where guesses are used they are better on average than what they take the place of: that all types are equally fast, or
// the operator's speeds. However few the runs, and however their lengths scatter.
func TestGuessesBeatWhatTheyReplace(t *testing.T) {
	operator := map[string]float64{"a": 1, "b": 0.5, "c": 0.2}
	types := []string{"a", "b", "c"}
	for _, scatter := range []float64{0.1, 0.7, 1.5} {
		for _, runs := range []int{1, 2, 4, 12} {
			for _, told := range []map[string]float64{nil, operator} {
				set := speed.Settings{Types: told}
				guess, replaced, used, all := 0.0, 0.0, 0, 0
				for site := range uint64(6) {
					r := rand.New(rand.NewPCG(site, 0))
					var h speed.History
					truth := make([][]float64, 50) // logs, of programs
					for p := range truth {
						for _, gpuType := range types {
							truth[p] = append(truth[p], math.Log(operator[gpuType])+0.35*math.Sqrt(1.5)*r.NormFloat64()) // 0.35 around the mean of three
						}
						for range runs {
							on := r.IntN(3)
							h.Add(speed.Run{
								Program: speed.Program{User: "ann", Name: fmt.Sprint("p", p), GPUs: 1},
								Seconds: map[string]float64{types[on]: 3600 * math.Exp(scatter*r.NormFloat64()-truth[p][on])},
							})
						}
					}
					k := h.Learn()
					for p := range truth {
						all++
						answers := set.For(&speed.Job{User: "ann", Name: fmt.Sprint("p", p), GPUs: 1}, types, nil, k).Speeds
						if slices.ContainsFunc(answers, func(a speed.Answer) bool { return a.Source != speed.Past && a.Source != speed.Site }) {
							continue
						}
						used++
						for i := range types {
							for l := range i {
								want, other := truth[p][i]-truth[p][l], 0.0
								if told != nil {
									other = math.Log(told[types[i]] / told[types[l]])
								}
								guess += math.Pow(math.Log(answers[i].Speed/answers[l].Speed)-want, 2)
								replaced += math.Pow(other-want, 2)
							}
						}
					}
				}
				if guess > 1.1*replaced || used == 0 && (runs == 12 || told == nil && runs == 4 && scatter < 1) {
					t.Errorf("runs that scatter by %.1f, %d of each program, operator's speeds: %t: %d of %d guesses used, squares of %.2f for %.2f", scatter, runs, told != nil, used, all, guess, replaced)
				}
			}
		}
	}
}

// A database may hold what an earlier priod made of runs: what is no speed is
// not said again.
func TestLessonsBeyondMeasure(t *testing.T) {
	usual := speed.Usual{Types: []string{"a100", "t4", "v100"}, Mean: make([]float64, 3), Doubt: make([]float64, 6), Spread: make([]float64, 6)}
	k, err := speed.Recall(usual, []speed.Lesson{{Program: program(0), Unit: speed.Steps, Mean: []float64{-1000, -1, -2}, Covariance: make([]float64, 6)}})
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range ask(k, 0) {
		if want := []speed.Source{speed.Site, speed.Past, speed.Past}[i]; !(a.Speed > 0) || a.Source != want {
			t.Errorf("%+v, want source %s", a, want)
		}
	}
}

// Runs of very different length say how fast the types are where users ask for time as there is work: in seconds of the
// limit. Where the limit says nothing, runs are compared as they are.
func TestLimitsTellTheWork(t *testing.T) {
	draw := rand.New(rand.NewPCG(1, 2))
	for told, limits := range map[string]func(work float64) float64{
		"limits follow the work":    func(work float64) float64 { return work * (1.2 + 0.8*draw.Float64()) },
		"one limit for all":         func(float64) float64 { return 86400 },
		"limits without any reason": func(float64) float64 { return 3600 * math.Exp(3*draw.NormFloat64()) },
	} {
		var h speed.History
		p := speed.Program{User: "ann", Name: "train", GPUs: 1}
		spread := 1.5
		if told != "limits follow the work" {
			spread = 0.2
		}
		for i := range 40 {
			work := 20000 * math.Exp(spread*draw.NormFloat64())
			gpuType, rate := "fast", 4.0
			if i%2 == 0 {
				gpuType, rate = "slow", 1
			}
			h.Add(speed.Run{Program: p, Seconds: map[string]float64{gpuType: work / rate}, Limit: limits(work)})
		}
		set := speed.Settings{}
		got := set.For(&speed.Job{User: "ann", Name: "train", GPUs: 1}, []string{"fast", "slow"}, nil, h.Learn())
		if a := got.Speeds[1]; a.Source != speed.Past || math.Abs(math.Log(a.Speed/0.25)) > math.Log(1.35) || a.Runs != 20 {
			t.Errorf("%s: slow is %+v of fast, want 0.25", told, a)
		}
	}
}

// The runs of a job name tell of a user who never ran it; where those on a type are all of one user they tell less, as
// that user's may do more work than others'.
func TestPooledPrograms(t *testing.T) {
	factor := map[bool]float64{}
	for _, several := range []bool{true, false} {
		var h speed.History
		for i := range 24 {
			user, gpuType, seconds := []string{"ann", "bob", "cem"}[i%3], "fast", 1000.0
			if i < 12 {
				gpuType, seconds = "slow", 4000
			}
			if !several && gpuType == "slow" {
				user = "ann"
			} else if !several && user == "ann" {
				user = "bob"
			}
			h.Add(speed.Run{Program: speed.Program{User: user, Name: "train", GPUs: 1 + i%4}, Seconds: map[string]float64{gpuType: seconds * float64(1+i%2) / 1.5}})
		}
		set := speed.Settings{}
		got := set.For(&speed.Job{User: "eve", Name: "train", GPUs: 2}, []string{"fast", "slow"}, nil, h.Learn()).Speeds
		if factor[several] = got[1].Factor; got[1].Source != speed.Past || got[1].Speed > 0.5 {
			t.Errorf("several users on each type: %t; answers %+v", several, got)
		}
	}
	if factor[true] > 1.3 || factor[false] < 1.6 {
		t.Errorf("known to within a factor of %.2f by several users on each type, of %.2f by one on each", factor[true], factor[false])
	}
}

// What users do in a run differs by a factor of ten; what their code gains from a type does not. Few runs of each,
// none of one user on all types, tell it together, for gangs of other sizes, too.
func TestUsersTellTogether(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		types := []string{"a", "b", "c"}
		rates := make([]map[string]float64, 8)
		var h speed.History
		for name := range rates {
			rate := map[string]float64{"a": 1, "b": math.Exp(-1.5 * r.Float64()), "c": math.Exp(-2.5 * r.Float64())}
			rates[name] = rate
			for user := range 12 {
				work := 3600 * math.Exp(1.2*r.NormFloat64())
				for _, on := range r.Perm(3)[:2] {
					h.Add(speed.Run{
						Program: speed.Program{User: fmt.Sprint("user", user), Name: fmt.Sprint("code", name), GPUs: 1 << (user % 3)},
						Seconds: map[string]float64{types[on]: work / rate[types[on]] * math.Exp(0.1*r.NormFloat64())},
					})
				}
			}
		}
		set := speed.Settings{}
		k := h.Learn()
		for _, user := range []string{"user3", "new"} {
			sum := 0.0
			for name, rate := range rates {
				for i, got := range set.For(&speed.Job{User: user, Name: fmt.Sprint("code", name), GPUs: 4}, types, nil, k).Speeds {
					if got.Source != speed.Past {
						t.Fatalf("%s, code%d on %s: %+v", user, name, types[i], got)
					}
					sum += math.Abs(math.Log(got.Speed / rate[types[i]]))
				}
			}
			if mean := sum / float64(2*len(rates)); mean > math.Log(1.35) {
				t.Errorf("%s: speeds are off by a factor of %.2f in the mean", user, math.Exp(mean))
			}
		}
	})
}

// A program whose speeds have changed is known again after a week of runs, however many runs taught the old ones.
func TestUnlearnedWithinAWeek(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		perDay := rapid.IntRange(2, 12).Draw(t, "runs a day")
		begin := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
		var h speed.History
		for i := range 14 * perDay {
			gpuType, end := []string{"a", "b"}[i%2], begin.Add(time.Duration(i)*24*time.Hour/time.Duration(perDay))
			seconds := 3600.0
			if early := i < 7*perDay; early == (gpuType == "b") {
				seconds *= 3 // b is slow first, then a is
			}
			h.Add(speed.Run{Program: speed.Program{User: "ann", Name: "train", GPUs: 1}, Seconds: map[string]float64{gpuType: seconds * math.Exp(0.1*r.NormFloat64())}, End: end})
		}
		set := speed.Settings{}
		got := set.For(&speed.Job{User: "ann", Name: "train", GPUs: 1}, []string{"a", "b"}, nil, h.Learn()).Speeds
		if got[0].Speed > 0.65 || got[1].Speed != 1 { // half way, in logs, is 1
			t.Fatalf("after a week in which a was a third as fast as b: %+v", got)
		}
	})
}
