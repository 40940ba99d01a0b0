package published

// Shuffle returns what puts the types in the random order in which, each
// round, the published scheduler serves them under agnostic policies: CPython's
// random.Random(seed + 5).shuffle, so that recordings can be replayed.
func Shuffle(seed uint64) func(types []int) { return newTwister(uint32(seed) + 5).shuffle }

// twister is MT19937 as CPython seeds and uses it.
type twister struct {
	state [624]uint32
	next  int
}

func newTwister(seed uint32) *twister {
	var m twister
	m.state[0] = 19650218
	for i := 1; i < 624; i++ {
		m.state[i] = 1812433253*(m.state[i-1]^m.state[i-1]>>30) + uint32(i)
	}
	i := 1
	for range 624 {
		m.state[i] = (m.state[i] ^ (m.state[i-1]^m.state[i-1]>>30)*1664525) + seed
		if i++; i == 624 {
			m.state[0], i = m.state[623], 1
		}
	}
	for range 623 {
		m.state[i] = (m.state[i] ^ (m.state[i-1]^m.state[i-1]>>30)*1566083941) - uint32(i)
		if i++; i == 624 {
			m.state[0], i = m.state[623], 1
		}
	}
	m.state[0] = 1 << 31
	m.next = 624
	return &m
}

func (m *twister) uint32() uint32 {
	if m.next == 624 {
		for i := range m.state {
			y := m.state[i]&(1<<31) | m.state[(i+1)%624]&(1<<31-1)
			m.state[i] = m.state[(i+397)%624] ^ y>>1 ^ -(y&1)&0x9908b0df
		}
		m.next = 0
	}
	y := m.state[m.next]
	m.next++
	y ^= y >> 11
	y ^= y << 7 & 0x9d2c5680
	y ^= y << 15 & 0xefc60000
	return y ^ y>>18
}

func (m *twister) shuffle(x []int) {
	for i := len(x) - 1; i > 0; i-- {
		bits, n := 0, i+1
		for v := n; v > 0; v >>= 1 {
			bits++
		}
		j := n
		for j >= n {
			j = int(m.uint32() >> (32 - bits))
		}
		x[i], x[j] = x[j], x[i]
	}
}
