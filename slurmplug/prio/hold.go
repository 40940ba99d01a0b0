package prio

import (
	"fmt"
	"strings"
	"time"
)

// HoldFile is where a site says how much later jobs begin that priod may steer to a GPU type, or
// give another size, so that it sees them before they start.
const HoldFile = "/etc/slurmprio/hold"

// LongestHold is how early priod steers and sizes a job that begins later.
const LongestHold = time.Minute

// ParseHold reads what HoldFile holds: one duration in whole seconds, among empty lines and lines
// that begin with #. Without a duration it is 0: no job is held back.
func ParseHold(text string) (time.Duration, error) {
	said := ""
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		if said != "" {
			return 0, fmt.Errorf("%s beside %s: want one duration", Quote(line), Quote(said))
		}
		said = line
	}
	if said == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(said)
	if err != nil || d < 0 || d > LongestHold || d%time.Second != 0 {
		return 0, fmt.Errorf("%s: want whole seconds up to a minute, such as 20s, or 0", Quote(said))
	}
	return d, nil
}
