package guarantee

import (
	"math/bits"
	"slices"

	"slurmprio/priod/cluster"
)

// uses are GPUs that jobs hold, by kind of nodes.
type uses struct {
	shares  [][]float64 // by share, of jobs that draw on it
	outside []float64   // of all others
}

func newUses(shares, kinds int) *uses {
	u := &uses{shares: make([][]float64, shares), outside: make([]float64, kinds)}
	for k := range u.shares {
		u.shares[k] = make([]float64, kinds)
	}
	return u
}

// use notes what a running job holds.
func (d *decider) use(j *cluster.Job, share int, gpus float64) {
	by := d.uses.outside
	if share >= 0 {
		d.result.Shares[share].Used += gpus
		by = d.uses.shares[share]
	} else if all := d.owners.shares(j.Account); len(all) > 0 {
		d.result.Shares[all[0]].Outside += gpus
	}
	on := d.pools.on(j)
	for kind := range by {
		if on&(1<<kind) != 0 {
			by[kind] += gpus / float64(bits.OnesCount64(uint64(on)))
		}
	}
}

// lend finds how much of each share others use. On each kind of nodes that is what is used beyond shares and beyond what no
// account owns there, as far as shares are not used; of the shares that may lie there, each lends in proportion to what of it
// is not used. A share that may lie on several kinds lies on each by its part of their GPUs.
func (d *decider) lend() {
	shares, gpus := d.result.Shares, d.pools.gpus
	idle, beyond := make([][]float64, len(shares)), slices.Clone(d.uses.outside)
	owned, rest := make([]float64, len(gpus)), make([]float64, len(gpus))
	for k := range shares {
		x := &shares[k]
		idle[k] = make([]float64, len(gpus))
		of := d.pools.has(d.owners.covers[k])
		for kind := range gpus {
			if d.owners.covers[k]&(1<<kind) != 0 && of > 0 {
				part := gpus[kind] / of
				owned[kind] += x.Owned * part
				idle[k][kind] = max(x.Owned-x.Used, 0) * part
				rest[kind] += idle[k][kind]
			}
			if x.Used > x.Owned {
				beyond[kind] += (x.Used - x.Owned) * d.uses.shares[k][kind] / x.Used
			}
		}
	}
	for kind := range gpus {
		free := max(gpus[kind]-owned[kind], 0) // no account's
		lent := min(beyond[kind]-free, rest[kind])
		for k := range shares {
			if lent > 0 {
				shares[k].LentOut += lent * idle[k][kind] / rest[kind]
			}
		}
	}
}
