package locality

// Constants are the settings that no site changes.
var Constants = Settings{
	Rule: Rule{
		Wait:    1,
		Longest: 24 * 3600, // max_switch_wait of slurm.conf limits it, too
		Others:  5,         // 1 / (1 - load) at a load of 0.8 (docs/evidence/locality.md: 5 of 2, 5, 10, 20)
	},
	OfLimit:        0.5,
	Depth:          500,
	WritesPerCycle: 100,
}
