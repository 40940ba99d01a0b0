package web

import (
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

const mostCached = 64 // answers

// answerCache has answers that many ask for at once: each is made once and holds for a moment, as a page and as JSON.
type answerCache struct {
	flight singleflight.Group
	mu     sync.Mutex
	of     map[string]*answer
}

// answer is what was read for a page.
type answer struct {
	made   time.Time
	status int
	data   page
	once   [2]sync.Once
	text   [2]rendered // as a page, as JSON
}

type rendered struct {
	status int
	body   []byte
}

// get is the answer of that name that is not older than age, else a new one.
func (k *answerCache) get(name string, age time.Duration, read func() (status int, data page)) *answer {
	k.mu.Lock()
	a := k.of[name]
	k.mu.Unlock()
	if a != nil && time.Since(a.made) < age {
		return a
	}
	made, _, _ := k.flight.Do(name, func() (any, error) {
		a := &answer{}
		a.status, a.data = read()
		a.made = time.Now()
		if age == 0 {
			return a, nil
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.of == nil || len(k.of) >= mostCached {
			k.of = map[string]*answer{}
		}
		k.of[name] = a
		return a, nil
	})
	return made.(*answer)
}

// in is the answer as a page, or as JSON.
func (a *answer) in(asJSON bool) (status int, body []byte) {
	at, render := 0, renderPage
	if asJSON {
		at, render = 1, renderJSON
	}
	a.once[at].Do(func() { a.text[at].status, a.text[at].body = render(a.status, a.data) })
	return a.text[at].status, a.text[at].body
}

// cached is a value that is read again once it is older than an age.
type cached[T any] struct {
	mu    sync.Mutex
	made  time.Time
	value T
}

func (c *cached[T]) get(age time.Duration, read func() (T, error)) (T, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.made.IsZero() && time.Since(c.made) < age {
		return c.value, nil
	}
	value, err := read()
	if err == nil {
		c.made, c.value = time.Now(), value
	}
	return value, err
}
