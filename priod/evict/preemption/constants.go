package preemption

// Constants are the settings that no site changes.
var Constants = Settings{
	Policy:  LeastLoss,
	S:       4, // of the paper (OpML'19)
	Rise:    2,
	Long:    12 * 3600, // docs/evidence/weeks.md
	Each:    3000,      // docs/evidence/weeks.md
	RunCost: 1,         // docs/evidence/preemption.md
	MinGain: 15,
	Spare:   3600,
	Left:    0.5,
}
