package waits

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"slurmprio/priod/cluster"
	"slurmprio/slurmplug"
)

// What the relaxed cluster settles while jobs still run is what one finds who looks back
// at the end: each job as soon as there is room after those that started before it, and
// never later than it really started.
func TestRelaxedSettlesWhatIsSure(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := func(name string, low, high int) int { return rapid.IntRange(low, high).Draw(t, name) }
		const gpus = 8
		var all []*run
		inUse := func(at time.Time) (sum int) {
			for _, r := range all {
				if !r.start.After(at) && r.end.After(at) {
					sum += r.gpus
				}
			}
			return sum
		}
		at := 0
		for k := range number("jobs", 1, 12) {
			r := &run{job: slurmplug.Plain(uint32(k + 1)), gpus: number("gpus", 1, gpus), since: second(max(at-number("waited", 0, 50), 0))}
			for at += number("pause", 0, 20); inUse(second(at))+r.gpus > gpus; at++ {
			}
			r.start, r.end = second(at), second(at+number("length", 1, 60))
			all = append(all, r)
		}
		want := backwards(all, gpus)
		p, given := relaxed{}.resize("p", noon, gpus), map[*run]*run{}
		for now := 0; now < 2000; now += number("poll", 1, 30) {
			var started []*run
			for _, r := range all {
				if _, known := given[r]; !known && !r.start.After(second(now)) {
					given[r] = &run{job: r.job, gpus: r.gpus, since: r.since, start: r.start}
					started = append(started, given[r])
				}
				if g := given[r]; g != nil && !r.end.After(second(now)) {
					g.end = r.end
				}
			}
			p.advance(second(now), started)
		}
		for i, r := range all {
			if got := given[r].settled; !got.Equal(want[i]) || got.After(r.start) || got.Before(r.since) {
				t.Fatalf("job %s of %d GPUs, since %v, started %v: relaxed %v, want %v", r.job, r.gpus, r.since, r.start, got, want[i])
			}
		}
	})
}

// backwards finds the starts second by second.
func backwards(all []*run, gpus int) []time.Time {
	order := slices.Clone(all)
	slices.SortStableFunc(order, func(a, b *run) int {
		return cmp.Or(a.start.Compare(b.start), a.since.Compare(b.since), a.job.Compare(b.job))
	})
	starts, at := map[*run]time.Time{}, noon
	for _, r := range order {
		for at = cluster.Later(at, r.since); at.Before(r.start); at = at.Add(time.Second) {
			used := r.gpus
			for other, start := range starts {
				if start.Add(other.end.Sub(other.start)).After(at) {
					used += other.gpus
				}
			}
			if used <= gpus {
				break
			}
		}
		starts[r] = at
	}
	found := make([]time.Time, len(all))
	for i, r := range all {
		found[i] = starts[r]
	}
	return found
}
