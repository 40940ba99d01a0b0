package cli

import (
	"io"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// progress shows on a terminal how far each of some things is, with words beside its bar; of is how far they go, 0: that is not known.
func progress(w io.Writer, names []string, of int64, words func(name string, done int64) string) (seen func(name string, done int64), finish func()) {
	if !isTerminal(w) {
		return func(string, int64) {}, func() {}
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
