package store

import (
	"encoding/json"
	"strings"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/priod/store/db"
	"slurmprio/slurmplug"
	"slurmprio/slurmplug/jobtag"
)

// Between the domain's types and the database's rows.

// each turns rows into what they say.
func each[R, T any](rows []R, of func(*R) T) []T {
	all := make([]T, len(rows))
	for i := range rows {
		all[i] = of(&rows[i])
	}
	return all
}

// every does something with each of some things until it fails.
func every[T any](all []T, do func(*T) error) error {
	for i := range all {
		if err := do(&all[i]); err != nil {
			return err
		}
	}
	return nil
}

func jobID(id, task int64) cluster.JobID { return cluster.JobID{ID: uint32(id), Task: int32(task)} }

func limitMS(d time.Duration) int64 {
	if d == slurmplug.Unlimited {
		return -1
	}
	return d.Milliseconds()
}

func limitOf(ms int64) time.Duration {
	if ms < 0 {
		return slurmplug.Unlimited
	}
	return time.Duration(ms) * time.Millisecond
}

func startMS(j *cluster.Job) int64 {
	if j.State == cluster.Pending {
		return 0
	}
	return millis(j.Start)
}

func jobParams(j *cluster.Job, row int64, at time.Time) db.PutJobParams {
	return db.PutJobParams{
		Job: row, ID: int64(j.ID.ID), Task: int64(j.ID.Task), AtMs: millis(at),
		RawID: int64(j.RawID), Tasks: j.Tasks, TaskCount: int64(j.TaskCount),
		HetLeader: int64(j.HetLeader), HetOffset: int64(j.HetOffset),
		User: j.User, Account: j.Account, Partition: j.Partition, Qos: j.QOS, Reservation: j.Reservation,
		State: j.State.String(), Reason: j.Reason,
		Priority: j.Priority, Nice: j.Nice, SiteFactor: j.SiteFactor, SiteFactorKnown: j.SiteFactorKnown,
		Restarts: int64(j.Restarts), Nodes: int64(j.Nodes), Cpus: int64(j.CPUs), MemMb: j.MemMB,
		Gpus: int64(j.GPUs), GpuType: j.GPUType, Features: j.Features, Prefer: j.Prefer, NodeList: j.NodeList,
		TimeLimitMs: limitMS(j.TimeLimit), SubmitMs: millis(j.Submit), EligibleMs: millis(j.Eligible),
		StartMs: startMS(j), Dependency: j.Dependency, Tag: j.TagText, TagError: j.TagErr,
	}
}

var states = func() map[string]cluster.State {
	m := map[string]cluster.State{}
	for s := cluster.Other; s <= cluster.Unread; s++ {
		m[s.String()] = s
	}
	return m
}()

// jobOf is the job as its row was last written.
func jobOf(r *db.Job) cluster.Job {
	tag := jobtag.Read(r.Tag).Tag
	return cluster.Job{
		ID: jobID(r.ID, r.Task), RawID: uint32(r.RawID), Tasks: r.Tasks, TaskCount: int(r.TaskCount),
		HetLeader: uint32(r.HetLeader), HetOffset: int(r.HetOffset),
		User: r.User, Account: r.Account, Partition: r.Partition, QOS: r.Qos, Reservation: r.Reservation,
		State: states[r.State], Reason: r.Reason,
		Priority: r.Priority, Nice: r.Nice, SiteFactor: r.SiteFactor, SiteFactorKnown: r.SiteFactorKnown,
		Restarts: int(r.Restarts), Nodes: int(r.Nodes), CPUs: int(r.Cpus), MemMB: r.MemMb,
		GPUs: int(r.Gpus), GPUType: r.GpuType, Features: r.Features, Prefer: r.Prefer, NodeList: r.NodeList,
		TimeLimit: limitOf(r.TimeLimitMs), Submit: instant(r.SubmitMs), Eligible: instant(r.EligibleMs),
		Start: instant(r.StartMs), Dependency: r.Dependency, Tag: tag, TagText: r.Tag, TagErr: r.TagError,
	}
}

func nodeParams(n *cluster.Node, at time.Time) db.PutNodeParams {
	return db.PutNodeParams{
		Name: n.Name, ChangedMs: millis(at), Usable: n.Usable, State: n.State, Features: strings.Join(n.Features, ","),
		GpuType: n.GPUType, Gpus: int64(n.GPUs), GpusUsed: int64(n.GPUsUsed), Cpus: int64(n.CPUs),
		CpusUsed: int64(n.CPUsUsed), MemMb: n.MemMB, MemUsedMb: n.MemUsedMB, MixedTypes: n.MixedTypes, Partitions: strings.Join(n.Partitions, ","),
	}
}

func nodeOf(r *db.Node) cluster.Node {
	n := cluster.Node{
		Name: r.Name, Usable: r.Usable, State: r.State, GPUType: r.GpuType, GPUs: int(r.Gpus),
		GPUsUsed: int(r.GpusUsed), CPUs: int(r.Cpus), CPUsUsed: int(r.CpusUsed), MemMB: r.MemMb,
		MemUsedMB: r.MemUsedMb, MixedTypes: r.MixedTypes,
	}
	if r.Features != "" {
		n.Features = strings.Split(r.Features, ",")
	}
	if r.Partitions != "" {
		n.Partitions = strings.Split(r.Partitions, ",")
	}
	return n
}

// decisionParams are without Choices, whose words are made when the decision is read. It takes the class under which the job was last ranked,
// "" for none.
func decisionParams(d *plan.Decision, counted string, row, cycle int64, at time.Time) db.AddDecisionParams {
	return db.AddDecisionParams{
		Job: row, Cycle: cycle, AtMs: millis(at), Class: d.Class.String(), Ranked: d.Ranked, Value: d.Value,
		OwnPriority: d.Own, Why: d.Why, Detail: d.Words(), SinceMs: millis(d.Since), Unmoved: d.Unmoved, Steer: d.Steer,
		Counted: counted,
	}
}

// storedChoices are Choices whose words do not stand beside them: before, Detail had those too.
type storedChoices struct {
	*plan.Choices
	Data bool `json:"data"`
}

// decisionOf is a decision as it is stored. data says that Detail has no words of its Choices.
func decisionOf(r *db.Decision, id cluster.JobID) (d plan.Decision, data bool) {
	d = plan.Decision{
		Job: id, Class: classOf(r.Class), Ranked: r.Ranked, Value: r.Value, Own: r.OwnPriority, Why: r.Why,
		Detail: r.Detail, Since: instant(r.SinceMs), Unmoved: r.Unmoved, Steer: r.Steer,
	}
	kept := storedChoices{Choices: &d.Choices}
	if r.Choices != "" {
		_ = json.Unmarshal([]byte(r.Choices), &kept) // choicesText wrote it
	}
	return d, kept.Data
}

func choicesText(c *plan.Choices) string {
	if *c == (plan.Choices{}) {
		return ""
	}
	text, err := json.Marshal(storedChoices{c, true})
	if err != nil {
		return "" // a figure that is no number
	}
	return string(text)
}

func classOf(text string) cluster.Class {
	if text == cluster.TE.String() {
		return cluster.TE
	}
	return cluster.BE
}

func intervalParams(i *cluster.Stay, row int64, running bool) db.PutIntervalParams {
	return db.PutIntervalParams{
		Job: row, StartMs: millis(i.Start), EndMs: millis(i.End), Running: running, Closed: i.Closed,
		GpuType: i.GPUType, Gpus: int64(i.GPUs), User: i.User, Account: i.Account, Class: i.Class.String(),
		Restarts: int64(i.Restarts), Charge: i.Charge,
	}
}

// intervalOf needs the last poll: until then a running interval's end is not
// written down.
func intervalOf(r *db.Interval, id cluster.JobID, lastPollMS int64) cluster.Stay {
	end := r.EndMs
	if r.Running {
		end = max(end, lastPollMS)
	}
	return cluster.Stay{
		Job: id, Start: instant(r.StartMs), End: instant(end), Closed: r.Closed, GPUType: r.GpuType,
		GPUs: int(r.Gpus), Charge: max(r.Charge, float64(r.Gpus)), User: r.User, Account: r.Account, Class: classOf(r.Class), Restarts: int(r.Restarts),
	}
}

// counted is the class under which a decision's job was last ranked, "" for none.
func counted(h *cluster.History, d *plan.Decision) string {
	if d.Ranked {
		return d.Class.String()
	}
	return lastCounted(h, d.Job)
}

func lastCounted(h *cluster.History, id cluster.JobID) string {
	if c, ok := h.Counted.Find(id); ok {
		return c.String()
	}
	return ""
}

// historyParams is what History holds of one job; stored is false when that is nothing, or
// no more than the job's row and its last decision tell.
func historyParams(h *cluster.History, e *entry) (row db.PutHistoryParams, stored bool) {
	row = db.PutHistoryParams{ID: int64(e.id.ID), Task: int64(e.id.Task), FirstEligibleMs: millis(h.FirstEligible.Get(e.id)), Counted: lastCounted(h, e.id)}
	if w, ok := h.Written[e.id]; ok {
		row.Lever, row.Value, row.Tried = string(w.Lever), w.Value, w.Tried
		row.WrittenMs, row.Reverts, stored = millis(w.At), int64(w.Reverts), true
	}
	return row, stored || row.FirstEligibleMs != e.since || row.Counted != e.counted
}

func actionOf(r *db.Write, id cluster.JobID) plan.Action {
	lever := slurmplug.Lever(r.Lever)
	return plan.Action{
		Job: id, Tasks: r.Tasks, Part: r.Part, Lever: lever, Before: lever.Value(r.Before), After: lever.Value(r.After),
		Reason: r.Reason, UserNice: slurmplug.SiteFactor.Value(r.UserNice),
	}
}
