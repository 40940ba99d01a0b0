package view

import (
	"time"

	"slurmprio/priod/store"
)

// momentForms are those in which people write a moment, in local time where they say no other.
var momentForms = []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04", time.DateOnly}

// ReadMoment reads a moment of what a state folder holds; "": none. A time of day alone is of the day on which that ends.
func ReadMoment(text, dir string) (at time.Time, err error) {
	if text == "" {
		return at, nil
	}
	for _, form := range momentForms {
		if at, err = time.ParseInLocation(form, text, time.Local); err == nil {
			return at, nil
		}
	}
	of, err := time.ParseInLocation("15:04", text, time.Local)
	if err != nil {
		return at, wrongf("%.40q is no moment: want one such as 2026-11-03T14:00, or 14:00", text)
	}
	day := time.Now()
	replay, err := store.ReadReplay(dir)
	if replay != nil {
		day = replay.Until.Local()
	}
	return time.Date(day.Year(), day.Month(), day.Day(), of.Hour(), of.Minute(), 0, 0, time.Local), err
}
