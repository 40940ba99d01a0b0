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
		if len(value) == 0 {
			return
		}
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
	seconds := func(key string, d time.Duration) {
		switch {
		case d%time.Second != 0 && failed == nil:
			failed = &Error{Key: key, Value: d.String(), Reason: "want whole seconds"}
		case d != 0:
			put(key, strconv.AppendInt(nil, int64(d/time.Second), 10))
		}
	}

	seconds("ckpt", t.Ckpt)
	put("cpu", appendTyped(nil, t.CPU, appendCurve))
	seconds("grace", t.Grace)
	put("mem", appendTyped(nil, t.Mem, appendCurve))
	put("retry", []byte(t.Retry))
	put("signal", []byte(t.Signal))
	put("speed", appendTyped(nil, t.Speed, appendNumber))
	if t.Steps != 0 {
		put("steps", appendNumber(nil, t.Steps))
	}
	put("type", []byte(t.Type))
	if len(b) > start {
		b = append(b, '&')
	}
	b = append(b, "v=1"...)
	put("workload", []byte(t.Workload))

	if failed == nil && t.Type == None && !t.alone() {
		failed = notAlone
	}
	if failed != nil {
		return "", failed
	}
	if len(b) > MaxBytes {
		return "", tooLong(len(b))
	}
	return string(b), nil
}
