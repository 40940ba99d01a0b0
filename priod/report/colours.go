package report

import (
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"
)

// Mark is text with a meaning that a terminal shows as a colour. go-pretty leaves colours
// out where NO_COLOR or TERM=dumb says so, Colours where the output is no terminal.
type Mark struct {
	Text    string
	Meaning text.Color // 0: none
}

// The meanings.
const (
	Good = text.FgGreen
	Bad  = text.FgRed
	Note = text.FgYellow
	TE   = text.FgCyan
)

// String is the text, safe for a terminal.
func (m Mark) String() string {
	if m.Meaning == 0 || m.Text == "" {
		return Safe(m.Text)
	}
	return m.Meaning.Sprint(Safe(m.Text))
}

// Marks are shown one behind the other.
type Marks []Mark

func (all Marks) String() string {
	var b strings.Builder
	for _, m := range all {
		b.WriteString(m.String())
	}
	return b.String()
}

// Colours says whether what is printed from now on goes to a terminal.
func Colours(seen bool) {
	if !seen {
		text.DisableColors()
	}
}
