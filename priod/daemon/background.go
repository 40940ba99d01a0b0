package daemon

// background is work alongside the cycles, one piece at a time; the zero value has none.
type background[T any] struct{ running chan T }

// begin runs one piece.
func (b *background[T]) begin(piece func() T) {
	done := make(chan T, 1)
	b.running = done
	go func() { done <- piece() }()
}

// busy reports whether a piece is under way; over that one has ended since the last call, with its result.
func (b *background[T]) busy() (busy bool, result T, over bool) {
	if b.running == nil {
		return false, result, false
	}
	select {
	case result = <-b.running:
		b.running = nil
		return false, result, true
	default:
		return true, result, false
	}
}

// finish waits for a piece that is under way: it uses the store.
func (b *background[T]) finish() {
	if b.running != nil {
		<-b.running
		b.running = nil
	}
}
