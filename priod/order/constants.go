package order

// Constants are the settings that no site changes. Step is 0: it is computed, above the sum of Slurm's own factors.
var Constants = Settings{
	Top:            2_000_000_000, // Slurm takes up to 2147483645 (NICE_OFFSET - 3, slurm.h)
	NiceLimit:      10_000,
	WritesPerCycle: 2000, // four seconds of slurmplug.Constants.WritesPerSecond
}
