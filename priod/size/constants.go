package size

import "time"

// Constants are the settings that no site changes.
var Constants = Settings{
	Within: time.Minute, // several cycles of Slurm's main scheduler, which starts a job that fits (docs/reference/sizes.md)
	Jobs:   100,
}
