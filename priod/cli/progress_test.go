package cli

import (
	"bytes"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// Where no terminal is, a long replay says each minute how far it is; a short one says nothing.
func TestProgressInALog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		seen, finish := progress(&log, []string{"with priod"}, 200_000, func(_ string, n int64) string { return fmt.Sprintf("%d of 200000 jobs submitted", n) })
		for n := range int64(150) {
			time.Sleep(time.Second)
			seen("with priod", 1000*n)
		}
		finish()
		if want := "priod: with priod 59000 of 200000 jobs submitted\npriod: with priod 119000 of 200000 jobs submitted\n"; log.String() != want {
			t.Errorf("%q", log.String())
		}
	})
}
