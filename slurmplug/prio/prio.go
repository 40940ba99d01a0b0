// Package prio is the --prio-* options of sbatchwrap: what they are called,
// where they may stand, and the tag that they make. priod reads them too, for
// jobs that are not submitted yet.
//
//	given, err := prio.FromScript(title, script)  // #PRIO lines
//	more, strange := prio.FromEnvironment(os.Environ())
//	given = slices.Concat(given, more, prio.FromArguments(cmd))
//	tag, text, err := prio.Tag(given)
//
// where cmd was parsed by a grammar with prio.Exact().
package prio

import (
	"fmt"
	"strconv"
	"strings"
)

// Error is what the user has to mend in a command line, a variable or a script.
// One line of printable ASCII: what, where, what to do.
type Error struct{ text string }

func (e *Error) Error() string { return e.text }

// Errorf makes an *Error.
func Errorf(format string, args ...any) error { return &Error{fmt.Sprintf(format, args...)} }

// Quote shows hostile text safely, and not at any length.
func Quote(s string) string {
	const most = 80
	if len(s) > most {
		return strconv.QuoteToASCII(strings.ToValidUTF8(s[:most], "?")) + "..."
	}
	return strconv.QuoteToASCII(s)
}
