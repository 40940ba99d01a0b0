package steer

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"slurmprio/priod/cluster"
	"slurmprio/priod/placement"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// bind writes what the verdicts say about the tasks of one record. The place of a
// claimed one lies where its constraint leads.
func (d *Steered) bind(berths []berth, verdicts []Verdict) {
	j := d.jobs[berths[0].at]
	own := d.h.Own(j, slurmplug.Features)
	claims := func(id cluster.JobID) bool { return d.h.Claiming[id] || d.h.Claiming[j.ID] }
	whole := j.Tasks == "" || berths[0].tasks == j.TaskCount
	for i := range verdicts {
		whole = whole && verdicts[i].Type == verdicts[0].Type && !claims(berths[i].id)
	}
	type group struct {
		why   string
		tasks []int32
	}
	groups := map[int32]*group{}
	var order []int32
	for i := range berths {
		v := &verdicts[i]
		if claims(berths[i].id) {
			continue
		}
		if groups[v.Type] == nil {
			why := cmp.Or(berths[i].alone, berths[i].kept.barred, string(v.Back), string(v.Why))
			groups[v.Type] = &group{why: why}
			order = append(order, v.Type)
		}
		groups[v.Type].tasks = append(groups[v.Type].tasks, berths[i].id.Task)
	}
	texts := map[int32]string{}
	written := 0
	for _, t := range order {
		text, lost := d.back(j)
		ok := text != "" || len(lost) == 0
		if t != Open {
			var err error
			text, err = d.words.with(own, d.features[t])
			ok = err == nil && d.steeredTo(j) != t
		} else if !ok {
			d.plan.Decisions[berths[0].at].Steer = NoFeature(lost)
		}
		if ok && text != j.Features {
			texts[t] = text
			written += len(groups[t].tasks)
		}
	}
	for i, t := range order {
		text, write := texts[t]
		if !write {
			continue
		}
		if whole {
			d.act(j, j.Tasks, false, t, text, groups[t].why)
			continue
		}
		// Slurm writes into the record itself what is for all tasks that are left in it,
		// and what was its user's would be known of the tasks only: one is left for later.
		tasks := groups[t].tasks
		if i == len(order)-1 && written == j.TaskCount {
			tasks = tasks[:len(tasks)-1]
		}
		if len(tasks) > 0 {
			d.act(j, slurmplug.CompactTasks(tasks), true, t, text, groups[t].why)
		}
	}
}

// open takes the type off a job, by its place in the plan.
func (d *Steered) open(at int, why string) {
	j := d.jobs[at]
	switch text, lost := d.back(j); {
	case text == "" && len(lost) > 0:
		d.plan.Decisions[at].Steer = NoFeature(lost)
	case text != j.Features:
		d.act(j, j.Tasks, false, Open, text, why)
	}
}

// back is what can be put back of what a job's user wrote, as take says. What priod has
// not written stays as it is.
func (d *Steered) back(j *cluster.Job) (text string, lost []string) {
	if !d.ours(j) {
		return j.Features, nil
	}
	return d.words.take(d.h.Own(j, slurmplug.Features))
}

func (d *Steered) act(j *cluster.Job, tasks string, part bool, t int32, text, why string) {
	if d.set.MaxWrites > 0 && len(d.Actions) >= d.set.MaxWrites {
		d.held++
		return
	}
	d.Actions = append(d.Actions, plan.Action{
		Job: j.ID, Tasks: tasks, Part: part, Lever: slurmplug.Features, Before: j.Features, After: text,
		Was: d.h.Own(j, slurmplug.Features), Reason: "steering: " + why,
	})
	d.to = append(d.to, t)
	ids := d.Actions[len(d.Actions)-1].Jobs()
	if !part {
		ids = places(j, d.width(j))
	}
	for _, id := range ids {
		if t == Open {
			d.course(id).open = d.s.At
		}
	}
}

func (d *Steered) note() {
	if d.held > 0 {
		d.plan.Notes = append(d.plan.Notes, fmt.Sprintf("%d constraints wait for the next cycle: steering.writes_per_cycle is reached", d.held))
	}
}

// Unseen are the jobs of which Vet has to know the Place, by Slurm's own id.
func (d *Steered) Unseen() map[cluster.JobID]uint32 {
	ask := maps.Clone(d.again)
	if ask == nil {
		ask = map[cluster.JobID]uint32{}
	}
	for i := range d.Actions {
		if d.to[i] != Open {
			ask[d.Actions[i].Job] = 0
		}
	}
	for _, j := range d.jobs {
		if _, asked := ask[j.ID]; asked {
			ask[j.ID] = j.RawID
		}
	}
	return ask
}

// Vet drops the writes that a closer look rules out: for jobs that name nodes,
// and for those that refuse all those of the type. The next cycles choose by what they
// say, and ask again after Settings.Cycles of them. A type that a job has already, and
// that still has a place for it, is not taken back for that.
func (d *Steered) Vet(places map[cluster.JobID]cluster.Place) {
	jobs := map[cluster.JobID]int{}
	for at, j := range d.jobs {
		jobs[j.ID] = at
	}
	for i := range d.berths {
		b := &d.berths[i]
		if place, known := places[d.jobs[b.at].ID]; known && !d.sizedOnto(place.Required, b.id, d.jobs[b.at].ID) {
			b.kept.place, b.kept.asked = place, d.set.Policy.Cycles+1
		}
	}
	kept := d.Actions[:0]
	for i, a := range d.Actions {
		t := d.to[i]
		if t == Open {
			kept = append(kept, a)
			continue
		}
		place, known := places[a.Job]
		if !known {
			continue
		}
		j, why := d.jobs[jobs[a.Job]], ""
		switch {
		case d.sizedOnto(place.Required, append(a.Jobs(), a.Job)...):
			d.plan.Decisions[jobs[a.Job]].Steer = sized
			continue
		case place.Required != "":
			why = named
		case !d.has(j, int(t), &place) && place.Excluded == "":
			why = fmt.Sprintf("what it asks of its nodes leaves no place for it on %s", d.shares.Types[t])
		case !d.has(j, int(t), &place):
			why = fmt.Sprintf("it refuses nodes (%.80s), and the others have no place for it on %s", place.Excluded, d.shares.Types[t])
		default:
			kept = append(kept, a)
			continue
		}
		d.plan.Decisions[jobs[a.Job]].Steer = why
		if has := d.steeredTo(j); d.ours(j) && (has == Open || place.Required != "" || !d.has(j, int(has), &place)) {
			if text, lost := d.back(j); text != j.Features && (text != "" || len(lost) == 0) {
				a.After, a.Reason = text, "steering: "+why
				kept = append(kept, a)
			}
		}
	}
	d.Actions = kept
}

// RuledOut are the types on which jobs cannot run by what they say of their nodes, for
// each job that was steered or left alone in this cycle.
func (d *Steered) RuledOut() map[cluster.JobID]placement.Types {
	out := make(map[cluster.JobID]placement.Types, len(d.berths))
	for i := range d.berths {
		out[d.jobs[d.berths[i].at].ID] = d.berths[i].out
	}
	return out
}

// sizedOnto tells whether nodes that a job names are those that its size was made for.
func (d *Steered) sizedOnto(hosts string, ids ...cluster.JobID) bool {
	return hosts != "" && slices.ContainsFunc(ids, func(id cluster.JobID) bool {
		r := d.h.Requests[id][slurmplug.Size]
		return slices.ContainsFunc(append(slices.Clone(r.Older), r.Value), func(text string) bool {
			_, nodes, _ := strings.Cut(text, string(slurmplug.ReqNodeList)+"=")
			return nodes == hosts
		})
	})
}

// has tells whether a type has a place for a job, by all that it says of its nodes.
func (d *Steered) has(j *cluster.Job, t int, place *cluster.Place) bool {
	asks := d.narrowed(j, place)
	return d.fit(&asks, place.Excluded).Has(int32(t))
}
