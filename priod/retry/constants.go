package retry

import "time"

// Constants are the settings that no site changes.
var Constants = Settings{
	PerJob:     3,
	PerUser:    20,
	PerHour:    60,
	PerCycle:   50,
	Quick:      time.Minute,
	Exclude:    4,
	Users:      3,
	QuickUsers: 2,
	Early:      10 * time.Minute,
	Within:     24 * time.Hour,
	MaxDrained: 1,
}
