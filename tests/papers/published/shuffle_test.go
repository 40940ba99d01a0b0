package published

import "testing"

// The first numbers of CPython's random.Random(5): getrandbits(32).
func TestTwister(t *testing.T) {
	m := newTwister(5)
	for i, want := range []uint32{2675342405, 1097127993, 3185950873} {
		if got := m.uint32(); got != want {
			t.Fatalf("number %d: %d, want %d", i, got, want)
		}
	}
}
