package web

import (
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

const mostKept = 64 // answers

// kept are answers that many ask for at once: each is made once and holds for a moment.
type kept struct {
	flight singleflight.Group
	mu     sync.Mutex
	of     map[string]keptAnswer
}

type keptAnswer struct {
	made   time.Time
	status int
	body   []byte
}

// answer is the one of that name that is not older than age, else a new one.
func (k *kept) answer(name string, age time.Duration, anew func() (status int, body []byte)) (int, []byte) {
	k.mu.Lock()
	a, known := k.of[name]
	k.mu.Unlock()
	if known && time.Since(a.made) < age {
		return a.status, a.body
	}
	made, _, _ := k.flight.Do(name, func() (any, error) {
		status, body := anew()
		a := keptAnswer{time.Now(), status, body}
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.of == nil || len(k.of) >= mostKept {
			k.of = map[string]keptAnswer{}
		}
		k.of[name] = a
		return a, nil
	})
	a = made.(keptAnswer)
	return a.status, a.body
}
