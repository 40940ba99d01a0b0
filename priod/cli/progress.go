package cli

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// sayEvery is how often a long command says how far it is where no terminal shows bars.
const sayEvery = time.Minute

// progress shows on a terminal how far each of some things is, with words beside its bar, and elsewhere says it now and then; of is how
// far they go, 0: that is not known.
func progress(w io.Writer, names []string, of int64, words func(name string, done int64) string) (seen func(name string, done int64), finish func()) {
	if !isTerminal(w) {
		said, one := time.Now(), sync.Mutex{}
		return func(name string, done int64) {
			one.Lock()
			defer one.Unlock()
			if now := time.Now(); now.Sub(said) >= sayEvery {
				said = now
				fmt.Fprintf(w, "priod: %s\n", strings.TrimSpace(name+" "+words(name, done)))
			}
		}, func() {}
	}
	p := mpb.New(mpb.WithOutput(w), mpb.WithWidth(40), mpb.WithRefreshRate(200*time.Millisecond))
	bars := map[string]*mpb.Bar{}
	for _, name := range names {
		bars[name] = p.AddBar(of, mpb.BarRemoveOnComplete(), mpb.PrependDecorators(decor.Name(name, decor.WCSyncSpaceR)),
			mpb.AppendDecorators(decor.Any(func(s decor.Statistics) string { return words(name, s.Current) })))
	}
	return func(name string, done int64) { bars[name].SetCurrent(done) }, func() {
		for _, b := range bars {
			b.Abort(true)
		}
		p.Wait()
	}
}
