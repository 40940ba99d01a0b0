package size

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"slurmprio/priod/cluster"
	"slurmprio/slurmplug"
)

// One node, jobs that are faster with up to eight CPUs and ask for two: they are
// raised to what the limits leave, the first most, and nobody by what the others
// need to start.
func TestSizesUpToTheLimit(t *testing.T) {
	each := func(cpus, memMB int64) *slurmplug.Allowance {
		return &slurmplug.Allowance{Limit: "each", CPUs: cpus, MemMB: memMB, Each: true}
	}
	group := &slurmplug.Allowance{Limit: "group", CPUs: 9, MemMB: slurmplug.Endless}
	full := &slurmplug.Allowance{Limit: "full", CPUs: 3, MemMB: slurmplug.Endless}
	const memory = "cpu=v100:2x1-8x4&mem=v100:1000x1-30000x4&v=1"
	for _, c := range []struct {
		name    string
		tag     string
		allowed []*slurmplug.Allowance // of each job
		gets    []string               // CPUs and MB that are written for it; "" for none
		says    string                 // of the last one
	}{
		{"none", "", []*slurmplug.Allowance{nil}, []string{"8 4000"}, "gets 8 CPUs and 4000 MB, expected at 4.00 times the speed (its tag's cpu)"},
		{"each", "", []*slurmplug.Allowance{each(4, slurmplug.Endless), each(100, slurmplug.Endless), each(2, slurmplug.Endless)}, []string{"4 4000", "8 4000", ""}, "requested 2 CPUs and 4000 MB, its best size (its tag's cpu; no more because each)"},
		{"memory", memory, []*slurmplug.Allowance{each(slurmplug.Endless, 6000)}, []string{"8 6000"}, "(its tag's cpu and mem; no more because each)"},
		{"too much", "", []*slurmplug.Allowance{each(1, slurmplug.Endless)}, []string{""}, "size: unchanged, because it requests more than a limit leaves: each"},
		{"group", "", []*slurmplug.Allowance{group, nil, group, group}, []string{"5 4000", "8 4000", "", ""}, "no more because group"},
		{"full group", "", []*slurmplug.Allowance{full, full}, []string{"3 4000", ""}, "it requests more than a limit leaves: full"},
	} {
		q := newSizeQueue(t, []cluster.Node{sizeNode("n1", 10, 80, 500000)})
		for _, l := range c.allowed {
			tag := "cpu=v100:2x1-8x4&v=1"
			if c.tag != "" {
				tag = c.tag
			}
			if j := q.add(t, 0, 2, 4000, 1, tag); l != nil {
				j.Asked.Allowances = []*slurmplug.Allowance{l}
			}
		}
		q.z.Decide(&q.s, q.h, &q.p)
		got := make([]string, len(c.allowed))
		for _, a := range q.p.Actions {
			got[a.Job.ID-1] = fmt.Sprint(a.After.Size().CPUs, a.After.Size().Memory)
		}
		if d := q.p.Decisions[len(got)-1].Size; strings.Join(got, ", ") != strings.Join(c.gets, ", ") || !strings.Contains(d, c.says) {
			t.Errorf("%s: %q, want %q; %s", c.name, got, c.gets, d)
		}
	}
}

// A waiting job that has more by priod than a limit leaves gets its own back.
func TestSizesAboveALimitBack(t *testing.T) {
	for left, back := range map[int64]bool{7: true, 8: false} {
		q := newSizeQueue(t, []cluster.Node{sizeNode("n1", 10, 80, 500000)})
		j := q.add(t, 0, 2, 4000, 1, "cpu=v100:2x1-8x4&v=1")
		own := j.Asked.Holds
		q.z.Decide(&q.s, q.h, &q.p)
		raised, err := parseAsked(resized(q.texts[0], q.p.Actions[0].After.String()))
		if err != nil || raised.CPUs != 8 {
			t.Fatal(err, raised)
		}
		q.h.Asked(j.ID, slurmplug.Size, own, raised.Holds, true, q.s.At)
		raised.Allowances = []*slurmplug.Allowance{{Limit: "new", CPUs: left, MemMB: slurmplug.Endless}}
		j.Asked, q.p.Actions = raised, nil
		q.z.Decide(&q.s, q.h, &q.p)
		if is := len(q.p.Actions) == 1 && q.p.Actions[0].After == own; is != back || len(q.p.Actions) > 1 {
			t.Errorf("%d CPUs are left, 8 written: %+v", left, q.p.Actions)
		}
	}
}

// What Slurm refuses to give back is tried again, but not in each cycle, and explain
// says why it is not back.
func TestSizesThatSlurmKeeps(t *testing.T) {
	q := newSizeQueue(t, []cluster.Node{sizeNode("n1", 8, 24, 512000)})
	j := q.add(t, 0, 6, 64000, 1, "cpu=v100:1x1-3x1&v=1")
	q.z.Decide(&q.s, q.h, &q.p)
	sized := q.p.Actions[0]
	q.h.Asked(j.ID, sized.Lever, sized.Was, sized.After, true, q.s.At)
	j.Asked.Holds, j.Asked.Fixed = sized.After, "is under a limit"
	for i, tried := range []bool{true, false, false, true, false, false} { // every half minute, with start_timeout = 1m
		q.p.Actions, q.p.Decisions[0].Size = nil, ""
		q.z.Decide(&q.s, q.h, &q.p)
		if is := len(q.p.Actions) == 1 && q.p.Actions[0].After == sized.Was; is != tried {
			t.Errorf("cycle %d: %+v", i, q.p.Actions)
		}
		if d := q.p.Decisions[0].Size; !tried && !strings.Contains(d, "because restoring it was refused: veto; priod tries again after") {
			t.Errorf("cycle %d: %s", i, d)
		}
		if tried {
			q.h.Refuse(j.ID, slurmplug.Size, "veto", q.s.At)
		}
		q.s.At = q.s.At.Add(29 * time.Second)
	}
}

// Whatever limits leave: no job is raised above one of its own, and all that are
// raised start together within those that they share.
func TestSizesKeepLimits(t *testing.T) {
	limited := 0
	rapid.Check(t, func(t *rapid.T) {
		var nodes []cluster.Node
		threads := rapid.IntRange(1, 2).Draw(t, "threads")
		for i := range rapid.IntRange(1, 3).Draw(t, "nodes") {
			n := sizeNode(fmt.Sprintf("n%d", i), 8, threads*24, 512000)
			n.Threads = threads
			nodes = append(nodes, n)
		}
		q := newSizeQueue(t, nodes)
		set := q.z.set
		q.z.Set(set)
		allowance := func(each bool) *slurmplug.Allowance {
			return &slurmplug.Allowance{Limit: "l", CPUs: rapid.Int64Range(0, 40).Draw(t, "left"), MemMB: rapid.Int64Range(0, 300000).Draw(t, "left MB"), Each: each}
		}
		groups := []*slurmplug.Allowance{allowance(false), allowance(false)}
		left := []slurmplug.Allowance{*groups[0], *groups[1]}
		own := map[cluster.JobID]slurmplug.Asked{}
		for range rapid.IntRange(1, 10).Draw(t, "jobs") {
			tag := rapid.SampledFrom([]string{
				"cpu=v100:1x1-3x3-12x6&v=1", "cpu=v100:2x1-6x4&mem=v100:1000x1-90000x2&v=1", "mem=v100:500x1-60000x3&v=1", "type=be&v=1",
			}).Draw(t, "tag")
			j := q.add(t, rapid.IntRange(0, len(asks)-1).Draw(t, "way"), rapid.IntRange(1, 8).Draw(t, "cpus"), rapid.Int64Range(1, 64000).Draw(t, "mem"), rapid.IntRange(1, 4).Draw(t, "gpus"), tag)
			for g := range groups {
				if rapid.Bool().Draw(t, "in group") {
					j.Asked.Allowances = append(j.Asked.Allowances, groups[g])
				}
			}
			if rapid.Bool().Draw(t, "limited") {
				j.Asked.Allowances = append(j.Asked.Allowances, allowance(true))
			}
			own[j.ID] = *j.Asked
		}
		q.z.Decide(&q.s, q.h, &q.p)
		for _, a := range q.p.Actions {
			was := own[a.Job]
			now, err := parseAsked(resized(q.texts[a.Job.ID-1], a.After.String()))
			if err != nil {
				t.Fatal(err)
			}
			if now.CPUs <= was.CPUs && now.MemMB <= was.MemMB {
				continue
			}
			for _, l := range was.Allowances {
				limited++
				if l.Each {
					if now.CPUs > was.CPUs && int64(now.CPUs) > l.CPUs || now.MemMB > was.MemMB && now.MemMB > l.MemMB {
						t.Fatalf("job %s gets %d CPUs and %d MB under %+v", a.Job, now.CPUs, now.MemMB, l)
					}
					continue
				}
				for g := range groups {
					if l == groups[g] {
						left[g].CPUs -= int64(now.CPUs)
						left[g].MemMB -= now.MemMB
					}
				}
			}
		}
		for _, l := range left {
			if l.CPUs < 0 || l.MemMB < 0 {
				t.Fatalf("those that are raised exceed a limit by %d CPUs and %d MB", -l.CPUs, -l.MemMB)
			}
		}
	})
	if limited == 0 {
		t.Error("nobody was raised under a limit")
	}
}
