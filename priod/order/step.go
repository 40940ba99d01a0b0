package order

import (
	"math"

	"slurmprio/priod/cluster"
)

// enoughSteps is how many steps a band has at least before the step is made smaller than all that
// the site's weights allow: 100 exact places. wideSteps is how many it keeps beside the room for
// factors that move until the next cycle.
const enoughSteps, wideSteps = 200, 20

// stepFor is larger than all that Slurm's own factors and a range of Nice can change between two
// jobs: by the weights of the site, where enough such steps fit below top. Where they do not
// (weights that add up to 10^9), it is larger than what the factors of the jobs in the queue
// differ by, twice that if it fits: order is then exact for these jobs, and each cycle recomputes it.
//
// It is rounded, and no smaller than smallestStep, so that it rarely changes. A step that shrinks
// moves no value; only one that grows does.
func stepFor(m cluster.Multifactor, nice, top int64) (step int64, narrow bool) {
	byWeights := roundUp(m.Span + nice + 1)
	if top/byWeights >= enoughSteps || !m.Polled {
		return byWeights, false
	}
	step = max(roundUp(2*m.Seen+nice+1), smallestStep(top))
	if top/step < wideSteps {
		step = max(roundUp(m.Seen+nice+1), smallestStep(top))
	}
	if step >= byWeights {
		return byWeights, false
	}
	return step, true
}

// smallestStep is the largest step of which enough fit below top.
func smallestStep(top int64) int64 {
	step := int64(1)
	for next := roundUp(step + 1); top/next >= enoughSteps; next = roundUp(step + 1) {
		step = next
	}
	return step
}

// ownUnit is how priorities by Slurm's own factors are counted here: up to the next multiple, and one
// more, so that it rarely changes.
const ownUnit = 1 << 28

// below is the highest value that can be added to Slurm's own priority of any job in the queue:
// the sum has 32 bits in Slurm, which cuts off what is above.
func below(m cluster.Multifactor, top int64) int64 {
	return min(top, max(math.MaxUint32-(m.Highest/ownUnit+2)*ownUnit, 0))
}
