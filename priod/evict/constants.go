package evict

import (
	"time"

	"slurmprio/priod/evict/preemption"
)

// Constants are the settings that no site changes.
var Constants = Settings{
	Policy: preemption.Constants,
	Hold:   time.Minute,
	Retry:  10 * time.Minute,
}

// Watch is how often evictions under way are looked at.
const Watch = time.Second
