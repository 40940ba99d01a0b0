package jobtag

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Error says why a tag does not count. Its text is one line of printable
// ASCII, whatever the tag holds: it goes to terminals and pages.
type Error struct {
	Key    string // "" when the tag as a whole is wrong
	Value  string // as found, "" when no value is at fault
	Reason string
}

func (e *Error) Error() string {
	switch {
	case e.Key == "":
		return "tag: " + e.Reason
	case e.Value == "":
		return "tag: key " + quote(e.Key) + ": " + e.Reason
	}
	return "tag: key " + quote(e.Key) + ", value " + quote(e.Value) + ": " + e.Reason
}

// quote makes hostile text safe to show, and short.
func quote(s string) string {
	const most = 48
	if len(s) > most {
		return strconv.QuoteToASCII(s[:most]) + "..."
	}
	return strconv.QuoteToASCII(s)
}

func tooLong(n int) *Error {
	return &Error{Reason: fmt.Sprintf("%d bytes, at most %d are allowed", n, MaxBytes)}
}

// keys of a tag, those of old tags with them; the position is the bit that Parse
// remembers a key by.
var keys = []string{"ckpt", "cpu", "give-back", "grace", "guess", "mem", "retry", "share", "signal", "speed", "steps", "type", "v", "workload"}

// Text is the text of a tag, and what it says: nothing where it is not valid.
type Text struct {
	Tag
	Text string
}

// Read parses the text of a tag where it enters priod.
func Read(text string) Text {
	t := Text{Text: text}
	if text != "" {
		t.Tag, _ = Parse(text)
	}
	return t
}

// Parse reads one tag, as Split returns it. An unknown or repeated key, a bad
// value, a missing or foreign v, or more than MaxBytes make the whole tag
// invalid: then the Tag is zero and the error an *Error.
func Parse(tag string) (Tag, error) {
	query, found := strings.CutPrefix(tag, Prefix)
	if !found {
		return Tag{}, &Error{Reason: "does not begin with " + Prefix}
	}
	if len(tag) > MaxBytes {
		return Tag{}, tooLong(len(tag))
	}
	var t Tag
	seen, versioned := 0, false
	for pair := range strings.SplitSeq(query, "&") {
		if pair == "" {
			continue
		}
		k, v, _ := strings.Cut(pair, "=")
		key, errKey := url.QueryUnescape(k)
		value, errValue := url.QueryUnescape(v)
		if errKey != nil || errValue != nil || strings.Contains(pair, ";") {
			return Tag{}, &Error{Key: k, Value: v, Reason: "not a URL query"}
		}
		i := slices.Index(keys, key)
		switch {
		case i < 0:
			return Tag{}, &Error{Key: key, Reason: "no such key"}
		case seen&(1<<i) != 0:
			return Tag{}, &Error{Key: key, Reason: "stands twice"}
		case key == "v" && value != "1":
			return Tag{}, &Error{Key: key, Value: value, Reason: "only version 1 is known"}
		}
		seen |= 1 << i
		switch key {
		case "v":
			versioned = true
		case "guess", "share", "give-back": // they do nothing any more; jobs may still carry them, with any value
		default:
			if err := t.Set(key, value); err != nil {
				return Tag{}, err
			}
		}
	}
	if !versioned {
		return Tag{}, &Error{Key: "v", Reason: "missing; a tag ends with v=1"}
	}
	if t.Type == None && !t.alone() {
		return Tag{}, notAlone
	}
	return t, nil
}

// alone reports whether a tag says nothing but its Type.
func (t *Tag) alone() bool {
	return t.Grace == 0 && t.Ckpt == 0 && t.Signal == "" && t.Workload == "" && len(t.Speed)+len(t.CPU)+len(t.Mem) == 0 && t.Steps == 0 && t.Retry == ""
}

// notAlone is the error of a tag with type=none and more.
var notAlone = &Error{Key: "type", Value: None, Reason: "takes the job out of everything: the tag can say nothing else"}
