package headroom

import "time"

// Constants are the settings that no site changes.
var Constants = Settings{
	Share: 0.25,
	Every: 5 * time.Minute, // the reservation ends by itself a minute later
}
