package live

import (
	"testing"
	"time"

	"slurmprio/slurmplug"
)

// A backup slurmctld says when it began to stand by, not when it read its jobs: nothing is
// taken from that.
func TestWhenSlurmctldReadItsJobs(t *testing.T) {
	const one, two = "SlurmctldHost[0] = ctl1\n", "SlurmctldHost[0] = ctl1\nSlurmctldHost[1] = ctl2\n"
	for text, known := range map[string]bool{
		one + "\nSlurmctld(primary) at ctl1 is UP\n":                                      true,
		two + "\nSlurmctld(primary) at ctl1 is UP\nSlurmctld(backup) at ctl2 is UP\n":     true,
		two + "\nSlurmctld(primary) at ctl1 is UP\nSlurmctld(backup) at ctl2 is DOWN\n":   true,
		two + "\nSlurmctld(primary) at ctl1 is DOWN\nSlurmctld(backup) at ctl2 is UP\n":   false,
		two + "\nSlurmctld(primary) at ctl1 is DOWN\nSlurmctld(backup) at ctl2 is DOWN\n": false,
	} {
		c := New(slurmplug.NewClient(says("BOOT_TIME = 1795347084\nSLURM_VERSION = 24.11.5\nClusterName = c\n"+text), slurmplug.Options{}))
		booted, err := c.booted(t.Context())
		if err != nil || booted.Equal(time.Unix(1795347084, 0)) != known || booted.IsZero() == known {
			t.Errorf("%q: %v, %v", text, booted, err)
		}
	}
}
