package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"slurmprio/priod/config"
	"slurmprio/priod/report"
	"slurmprio/priod/store"
	"slurmprio/priod/view"
)

// moment is what of a state folder is asked for: under at/TIME/ stands each page as of then, under without/ that of a replay without
// priod. All links of a page are relative, so they stay at its moment.
type moment struct {
	at      time.Time // zero: now, or the end of a replay
	without bool
}

type momentKey struct{}

func momentOf(ctx context.Context) moment {
	m, _ := ctx.Value(momentKey{}).(moment)
	return m
}

const momentForm = "2006-01-02T15:04:05Z" // in addresses

// prefix is where the pages of a moment stand, from the root.
func (m moment) prefix() (path string) {
	if m.without {
		path = store.Without + "/"
	}
	if !m.at.IsZero() {
		path += "at/" + m.at.UTC().Format(momentForm) + "/"
	}
	return path
}

// root is the way back from there.
func (m moment) root() string { return strings.Repeat("../", strings.Count(m.prefix(), "/")) }

// dir is the state folder of a moment.
func (m moment) dir(c *config.Config) string {
	if m.without {
		return filepath.Join(c.State.Dir, store.Without)
	}
	return c.State.Dir
}

// dated answers requests below the prefixes of moments.
func (p *Pages) dated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m moment
		path := r.URL.Path
		if rest, below := strings.CutPrefix(path, "/"+store.Without+"/"); below {
			m.without, path = true, "/"+rest
			if replay, err := store.ReadReplay(m.dir(p.Config)); err != nil || replay == nil {
				p.failed(wantsJSON(r), http.StatusNotFound, cmp.Or(err, errors.New("this is no replay: nothing was recorded without priod"))).send(w, r)
				return
			}
		}
		if rest, below := strings.CutPrefix(path, "/at/"); below {
			text, rest, _ := strings.Cut(rest, "/")
			at, err := view.ReadMoment(text, m.dir(p.Config))
			if err != nil || at.IsZero() {
				p.failed(wantsJSON(r), http.StatusBadRequest, cmp.Or(err, errors.New("which moment?"))).send(w, r)
				return
			}
			m.at, path = at, "/"+rest
		}
		if m == (moment{}) {
			next.ServeHTTP(w, r)
			return
		}
		r = r.Clone(context.WithValue(r.Context(), momentKey{}, m))
		r.URL.Path, r.URL.RawPath = path, ""
		next.ServeHTTP(w, r)
	})
}

// choose leads from the form of the slider, where no script does, to the moment that was chosen there.
func (p *Pages) choose(w http.ResponseWriter, r *http.Request) {
	m := momentOf(r.Context())
	root := m.root()
	at, err := view.ReadMoment(r.URL.Query().Get("time"), m.dir(p.Config))
	if err != nil {
		p.failed(false, http.StatusBadRequest, err).send(w, r)
		return
	}
	m.at = at
	page := r.URL.Query().Get("page")
	if !known(page) {
		page = ""
	}
	w.Header().Set("Location", cmp.Or(root+m.prefix()+page, "./"))
	w.WriteHeader(http.StatusSeeOther)
}

// known reports whether there is a page of this path.
func known(path string) bool {
	for _, x := range pages {
		if x.path == "/"+path {
			return true
		}
	}
	return false
}

// Slider is by what the moment of a page is chosen.
type Slider struct {
	From, Until, At time.Time // what is recorded; what is shown
	Past            bool      // a moment is shown
	Replay          *store.Replay
	Without         bool // the side without priod is shown

	moment moment
	rest   string // of the address: page and question
}

// Link is the address of the same page at another moment, within what is recorded.
func (s *Slider) link(m moment) string {
	if !m.at.IsZero() {
		m.at = m.at.Truncate(time.Second)
		if m.at.Before(s.From) {
			m.at = s.From.Add(time.Second - 1).Truncate(time.Second)
		}
		if m.at.After(s.Until) {
			m.at = s.Until.Truncate(time.Second)
		}
	}
	return cmp.Or(s.moment.root()+m.prefix()+s.rest, "./")
}

// Step is a link to an earlier or later moment.
type Step struct{ Words, Href string }

// Steps lead to and fro.
func (s *Slider) Steps() (all []Step) {
	for _, x := range []struct {
		words string
		by    time.Duration
	}{{"−1 d", -24 * time.Hour}, {"−1 h", -time.Hour}, {"−10 min", -10 * time.Minute}, {"+10 min", 10 * time.Minute}, {"+1 h", time.Hour}, {"+1 d", 24 * time.Hour}} {
		if s.Past || x.by < 0 {
			m := s.moment
			m.at = s.At.Add(x.by)
			all = append(all, Step{x.words, s.link(m)})
		}
	}
	return all
}

// Other is the same page at the same moment with priod, or without.
func (s *Slider) Other() string {
	m := s.moment
	m.without = !m.without
	return s.link(m)
}

// Latest is the same page now, or at the end.
func (s *Slider) Latest() string {
	m := s.moment
	m.at = time.Time{}
	return s.link(m)
}

// Pattern is the address of a moment that stands for TIME.
func (s *Slider) Pattern() string {
	m := s.moment
	m.at = s.At
	return strings.Replace(s.link(m), m.at.UTC().Truncate(time.Second).Format(momentForm), "TIME", 1)
}

// Position of the slider, and its end: in minutes since From.
func (s *Slider) Position() int { return int(s.At.Sub(s.From).Minutes()) }

// End is that of Until.
func (s *Slider) End() int { return int(s.Until.Sub(s.From).Minutes()) }

// Origin is the first whole second of it, since 1970.
func (s *Slider) Origin() int64 { return s.From.Add(time.Second - 1).Unix() }

// Local is the moment as a field of a form takes it.
func (s *Slider) Local() string { return s.At.Local().Format("2006-01-02T15:04") }

// Title says what is replayed.
func (s *Slider) Title() string {
	jobs := report.Plural(s.Replay.Jobs, "job", "jobs")
	if s.Replay.Stopped > 0 {
		jobs = fmt.Sprintf("stopped after %d of %s:", s.Replay.Stopped, jobs)
	}
	from, until := s.From.Local().Format("2 January 2006"), s.Until.Local().Format("2 January 2006")
	return fmt.Sprintf("%s from %s to %s, in virtual time", jobs, from, until)
}

// slider is that of a page; nil: of the present of a daemon that has not begun.
func (p *Pages) slider(ctx context.Context, m moment, r *store.Reader, rest string) (*Slider, error) {
	replay, err := store.ReadReplay(m.dir(p.Config))
	if err != nil {
		return nil, err
	}
	from, until, err := r.Span(ctx)
	if err != nil {
		return nil, err
	}
	return &Slider{From: from, Until: until, At: r.Now(), Past: !r.Moment().IsZero(), Replay: replay, Without: m.without, moment: m, rest: rest}, nil
}
