package web

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"slurmprio/priod/report"
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
			text := ": nothing new\n\n" // finds out which listeners have gone
			if last := p.latest.cycle(ctx, p.Config.State.Dir); last != told {
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

// latest is the last cycle as all streams share it.
type latest struct {
	mu   sync.Mutex
	at   time.Time
	last string
}

// cycle is the number of the last cycle that changed something, and when the last one
// was; "0" when it cannot be read.
func (l *latest) cycle(ctx context.Context, dir string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.at) < glance/2 {
		return l.last
	}
	l.at, l.last = time.Now(), "0"
	r, err := store.OpenReader(context.WithoutCancel(ctx), dir)
	if err != nil {
		return l.last
	}
	defer r.Close()
	if last, err := r.LastCycle(ctx); err == nil {
		l.last = fmt.Sprintf("%d %s", last.Last(), report.Clock(last.Until))
	}
	return l.last
}
