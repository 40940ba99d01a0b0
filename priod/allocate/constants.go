package allocate

import "time"

// Constants are the settings that no site changes.
var Constants = Settings{
	Every: 30 * time.Minute, // allocations change when jobs or nodes come or go; this follows speeds learned meanwhile
}
