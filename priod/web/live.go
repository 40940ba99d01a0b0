package web

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"slurmprio/priod/store"
)

const (
	glance   = 2 * time.Second // between looks for the next cycle
	lifetime = time.Hour       // of a stream; the browser opens the next one by itself
)

// stream tells each listener, as server-sent events, of each cycle.
func (p *Pages) stream(most int) http.HandlerFunc {
	places := make(chan struct{}, most)
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
		default:
			w.Header().Set("Retry-After", "30")
			http.Error(w, "too many pages are live at once", http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		control := http.NewResponseController(w)
		ctx, cancel := context.WithTimeout(r.Context(), lifetime)
		defer cancel()
		tick := time.NewTicker(glance)
		defer tick.Stop()
		for told := ""; ; {
			text := ": nothing new\n\n" // finds out who has gone
			if last := p.lastCycle(ctx); last != told {
				text, told = fmt.Sprintf("event: cycle\ndata: %s\n\n", last), last
			}
			_ = control.SetWriteDeadline(time.Now().Add(10 * time.Second)) // a slow reader loses its stream
			if _, err := fmt.Fprint(w, text); err != nil || control.Flush() != nil {
				return
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}
}

// lastCycle is the number of the last cycle that changed something, and when the last one
// was; "0" when it cannot be read.
func (p *Pages) lastCycle(ctx context.Context) string {
	r, err := store.OpenReader(ctx, p.Dir)
	if err != nil {
		return "0"
	}
	defer r.Close()
	last, err := r.LastCycle(ctx)
	if err != nil {
		return "0"
	}
	return fmt.Sprintf("%d %s", last.Number, clock(last.Until))
}
