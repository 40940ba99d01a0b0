package placement

import "testing"

// A job that accepts so many nodes lies on no more, with switches and without; one that accepts
// any number, on as many as it takes.
func TestMost(t *testing.T) {
	for _, leaves := range []bool{false, true} {
		n := New(Packed, []Node{{Type: 0, Amount: Amount{GPUs: 4, CPUs: Plenty, MemMB: Plenty}}, {Type: 0, Amount: Amount{GPUs: 4, CPUs: Plenty, MemMB: Plenty}}, {Type: 0, Amount: Amount{GPUs: 4, CPUs: Plenty, MemMB: Plenty}}})
		if leaves {
			n.SetLeaves([]int32{0, 0, 1})
		}
		n.Take([]Share{{Node: 0, Amount: Amount{GPUs: 3}}, {Node: 1, Amount: Amount{GPUs: 2}}, {Node: 2, Amount: Amount{GPUs: 2}}})
		for most, fits := range map[int32]bool{0: true, 1: false, 2: true, 3: true} {
			r := Request{Types: 1, Amount: Amount{GPUs: 4}, Most: most}
			shares, ok := n.Fit(r, nil)
			if ok != fits || ok && most > 0 && len(shares) > int(most) {
				t.Errorf("leaves %v, %d at most: %v, %v", leaves, most, shares, ok)
			}
			r.GPUs = 5
			if _, ok := n.Fit(r, nil); ok != (most == 0 || most == 3) {
				t.Errorf("leaves %v, 5 GPUs on %d at most: %v", leaves, most, ok)
			}
		}
	}
}
