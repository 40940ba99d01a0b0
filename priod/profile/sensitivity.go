package profile

import (
	"strconv"

	"slurmprio/priod/profile/curve"
	"slurmprio/priod/workload"
	"slurmprio/slurmplug/jobtag"
)

// Curve is what a profile says: the fitted CPU curve, bent by the cache model
// when there is one; speed 1 is that of the proportional share. Without a model
// one amount of memory is known, that of the profile's own job. gpus are those
// of the job.
func (r *Result) Curve(cache *curve.Cache, gpus int) workload.Curve {
	fitted := curve.Fit(r.Measured)
	own := r.MemMB / int64(gpus)
	if own <= 0 {
		own = max(1, r.Type.ShareMB)
	}
	speed := func(rate float64, memMB int64) float64 { return rate }
	c := workload.Curve{MemMB: []int64{own}}
	if cache != nil {
		speed = func(rate float64, memMB int64) float64 { return min(rate, cache.Rate(float64(memMB)*float64(gpus))) }
		c.MemMB = cache.Amounts(gpus, max(r.Type.MostMB, r.Type.ShareMB))
	}
	reference := speed(curve.Rate(fitted, r.Type.Share), r.Type.ShareMB)
	c.IterationS = short(1 / reference)
	for _, p := range fitted {
		row := make([]float64, len(c.MemMB))
		for j, mb := range c.MemMB {
			row[j] = max(slowest, short(speed(p.Rate, mb)/reference))
		}
		c.CPUs, c.Speed = append(c.CPUs, float64(p.CPUs)), append(c.Speed, row)
	}
	demand := curve.Demand(fitted)
	c.DemandCPUs = float64(demand)
	best := curve.Rate(fitted, float64(demand))
	for _, mb := range c.MemMB {
		c.DemandMemMB = mb
		if speed(best, mb)*(1+curve.Plateau) >= speed(best, c.MemMB[len(c.MemMB)-1]) {
			break
		}
	}
	return c
}

// Tag is what the curves say in a job's tag: speed against CPUs up to the
// demand, and with a cache model against memory; with several GPU types their
// speed relative to the fastest.
func Tag(curves map[string]workload.Curve) jobtag.Tag {
	var tag jobtag.Tag
	tag.CPU = map[string]jobtag.Curve{}
	fastest := 0.0
	for name, c := range curves {
		var cpu, mem jobtag.Curve
		for i, n := range c.CPUs {
			if n <= c.DemandCPUs {
				cpu = append(cpu, jobtag.Point{Amount: n, Speed: c.Speed[i][len(c.MemMB)-1]})
			}
		}
		tag.CPU[name] = cpu
		for _, mb := range c.MemMB {
			if len(c.MemMB) > 1 && mb <= c.DemandMemMB {
				mem = append(mem, jobtag.Point{Amount: float64(mb), Speed: short(c.Relative(c.DemandCPUs, float64(mb)))})
			}
		}
		if mem != nil {
			if tag.Mem == nil {
				tag.Mem = map[string]jobtag.Curve{}
			}
			tag.Mem[name] = mem
		}
		fastest = max(fastest, 1/c.IterationS)
	}
	if len(curves) > 1 {
		tag.Speed = map[string]float64{}
		for name, c := range curves {
			tag.Speed[name] = max(slowest, short(1/c.IterationS/fastest))
		}
	}
	return tag
}

// short rounds to three digits: more is noise, and a tag has 512 bytes.
func short(x float64) float64 {
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 3, 64), 64)
	return rounded
}

// slowest is the relative speed of what hardly moves at all; a tag takes
// nothing below a millionth.
const slowest = 0.001
