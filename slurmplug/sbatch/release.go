package sbatch

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Release is a release of Slurm as a number: 2205 is 22.05.
type Release int

// Releases are those that the option table knows, oldest first.
var Releases = []Release{2205, 2302, 2311, 2405, 2411, 2505, 2511, 2605}

// ParseRelease reads what sbatch --version prints: "slurm 23.02.6",
// "slurm-wlm 22.05.8".
func ParseRelease(version string) (Release, error) {
	fields := strings.Fields(version)
	if len(fields) > 0 {
		parts := strings.SplitN(fields[len(fields)-1], ".", 3)
		if len(parts) >= 2 && len(parts[0]) == 2 && len(parts[1]) == 2 {
			n, err := strconv.ParseUint(parts[0]+parts[1], 10, 16)
			if err == nil {
				return Release(n), nil
			}
		}
	}
	return 0, fmt.Errorf("no Slurm version in %q, want such as \"slurm 23.02.6\"", version)
}

func (r Release) String() string { return fmt.Sprintf("%02d.%02d", r/100, r%100) }

// in tells whether the release has the option. A release newer than the table
// has what the newest one has.
func (o *Option) in(r Release) bool {
	return r >= o.Since && !slices.Contains(o.Absent, min(r, Releases[len(Releases)-1]))
}
