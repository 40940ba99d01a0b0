package training

import (
	"os"
	"strconv"
	"strings"
	"time"
)

// Work is a run that goes on where its last checkpoint was.
type Work struct {
	Seconds float64       // at speed 1
	File    string        // of the checkpoint
	Every   time.Duration // between checkpoints
}

// Run works at a speed until all is done.
func (w *Work) Run(speed float64) error {
	text, err := os.ReadFile(w.File)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	saved, _ := strconv.ParseFloat(strings.TrimSpace(string(text)), 64) // none, before the first
	began, from := time.Now(), saved
	for {
		left := time.Duration((w.Seconds - saved) / speed * float64(time.Second))
		if left <= 0 {
			return nil
		}
		time.Sleep(min(left, w.Every))
		saved = from + time.Since(began).Seconds()*speed
		if err := os.WriteFile(w.File+".new", []byte(strconv.FormatFloat(saved, 'f', -1, 64)), 0o644); err != nil {
			return err
		}
		if err := os.Rename(w.File+".new", w.File); err != nil {
			return err
		}
	}
}
