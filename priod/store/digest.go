package store

import (
	"encoding/binary"
	"hash/maphash"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
)

// digester reduces what a row holds to 8 bytes, so that a cycle can tell what
// changed without reading the database or keeping a copy of it. The seed is the
// process's own: nobody can craft a job whose change goes unseen. No digest is
// 0, which stands for no row.
type digester struct {
	seed maphash.Seed
	buf  []byte
}

func (d *digester) start() { d.buf = d.buf[:0] }
func (d *digester) sum() uint64 {
	return maphash.Bytes(d.seed, d.buf) | 1
}

func (d *digester) int(v int64) { d.buf = binary.LittleEndian.AppendUint64(d.buf, uint64(v)) }

func (d *digester) text(s string) {
	d.buf = binary.LittleEndian.AppendUint32(d.buf, uint32(len(s)))
	d.buf = append(d.buf, s...)
}

func (d *digester) flag(b bool) {
	if b {
		d.buf = append(d.buf, 1)
	} else {
		d.buf = append(d.buf, 0)
	}
}

// job covers what PutJob writes, but for the priority, which moves with every
// poll, and Slurm's estimate of when a pending job starts.
func (d *digester) job(j *cluster.Job) uint64 {
	d.start()
	d.buf = append(d.buf, byte(j.State))
	d.flag(j.SiteFactorKnown)
	d.flag(j.Dependency)
	for _, v := range [...]int64{
		int64(j.RawID), int64(j.TaskCount), int64(j.HetLeader), int64(j.HetOffset), j.Nice, j.SiteFactor,
		int64(j.Restarts), int64(j.Nodes), int64(j.CPUs), j.MemMB, int64(j.GPUs), limitMS(j.TimeLimit),
		millis(j.Submit), millis(j.Eligible), startMS(j),
	} {
		d.int(v)
	}
	for _, s := range [...]string{
		j.Tasks, j.User, j.Account, j.Partition, j.QOS, j.Reservation, j.Reason, j.GPUType, j.Features, j.Prefer,
		j.NodeList, j.TagText, j.TagErr,
	} {
		d.text(s)
	}
	return d.sum()
}

func (d *digester) node(n *cluster.Node) uint64 {
	d.start()
	d.flag(n.Usable)
	d.flag(n.MixedTypes)
	for _, v := range [...]int64{
		int64(n.GPUs), int64(n.GPUsUsed), int64(n.CPUs), int64(n.CPUsUsed), n.MemMB, n.MemUsedMB,
	} {
		d.int(v)
	}
	d.text(n.State)
	d.text(n.GPUType)
	for _, f := range n.Features {
		d.text(f)
	}
	return d.sum()
}

// decision leaves out Slurm's own priority, which moves with every poll.
func (d *digester) decision(p *plan.Decision) uint64 {
	d.start()
	d.buf = append(d.buf, byte(p.Class))
	d.flag(p.Ranked)
	d.int(p.Value)
	d.int(millis(p.Since))
	d.text(p.Why)
	d.text(p.Detail)
	d.text(p.Evict)
	d.text(p.Size)
	d.text(p.Unmoved)
	d.text(p.Steer)
	return d.sum()
}

// history is what the row of table history holds.
func (d *digester) history(r *historyRow) uint64 {
	d.start()
	for _, v := range [...]int64{r.FirstEligibleMs, r.Value, r.Tried, r.Original, r.WrittenMs, r.Reverts} {
		d.int(v)
	}
	d.text(r.Counted)
	d.text(r.Lever)
	return d.sum()
}

// millis is a time as the database holds it: UTC milliseconds, 0 for none.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// instant is the inverse of millis.
func instant(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}
