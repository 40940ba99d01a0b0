package jobtag

import (
	"strconv"
	"time"
)

// Encode writes the tag: Prefix, keys sorted, only what is said, and v=1. The
// same Tag always gives the same text. A value that Parse would refuse, or
// more than MaxBytes, is an *Error.
func Encode(t Tag) (string, error) {
	b := append(make([]byte, 0, 128), Prefix...)
	start := len(b)
	var failed error
	put := func(key string, value []byte) {
		// Every value that Set accepts consists of bytes that a URL query
		// carries as they are, so nothing is left to percent-encode.
		if err := new(Tag).Set(key, string(value)); err != nil && failed == nil {
			failed = err
		}
		if len(b) > start {
			b = append(b, '&')
		}
		b = append(append(append(b, key...), '='), value...)
	}
	text := func(key, value string) {
		if value != "" {
			put(key, []byte(value))
		}
	}
	seconds := func(key string, d time.Duration) {
		switch {
		case d%time.Second != 0 && failed == nil:
			failed = &Error{Key: key, Value: d.String(), Reason: "want whole seconds"}
		case d != 0:
			put(key, strconv.AppendInt(nil, int64(d/time.Second), 10))
		}
	}
	flag := func(key string, on bool) {
		if on {
			put(key, []byte("1"))
		}
	}

	seconds("ckpt", t.Ckpt)
	if len(t.CPU) > 0 {
		put("cpu", appendTyped(nil, t.CPU, appendCurve))
	}
	flag("give-back", t.GiveBack)
	seconds("grace", t.Grace)
	if len(t.Mem) > 0 {
		put("mem", appendTyped(nil, t.Mem, appendCurve))
	}
	text("retry", t.Retry)
	text("signal", t.Signal)
	if len(t.Speed) > 0 {
		put("speed", appendTyped(nil, t.Speed, appendNumber))
	}
	if t.Steps != 0 {
		put("steps", appendNumber(nil, t.Steps))
	}
	text("type", t.Type)
	if len(b) > start {
		b = append(b, '&')
	}
	b = append(b, "v=1"...)
	text("workload", t.Workload)

	if failed != nil {
		return "", failed
	}
	if len(b) > MaxBytes {
		return "", tooLong(len(b))
	}
	return string(b), nil
}
