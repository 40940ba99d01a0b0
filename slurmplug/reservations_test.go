package slurmplug

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// As scontrol --oneliner show reservation of 22.05, 24.11 and 26.05 prints them, times by SLURM_TIME_FORMAT=%s.
func TestParseReservations(t *testing.T) {
	const text = "ReservationName=maint StartTime=1795968000 EndTime=1795975200 Duration=02:00:00 Nodes=a100-[1-2] NodeCnt=2 CoreCnt=32 Features=(null) PartitionName=(null) Flags=MAINT,SPEC_NODES TRES=cpu=32 Users=root Groups=(null) Accounts=(null) Licenses=(null) State=INACTIVE BurstBuffer=(null) Watts=n/a MaxStartDelay=(null)\n" +
		"ReservationName=licence StartTime=soon EndTime=1795975200 Nodes=(null)\n"
	want := []NodeReservation{{"maint", "a100-[1-2]", time.Unix(1795968000, 0), time.Unix(1795975200, 0), false}, {"licence", "", time.Time{}, time.Unix(1795975200, 0), false}}
	var left table
	if diff := cmp.Diff(want, parseReservations(text, &left)); diff != "" || len(left.odd) != 1 || left.odd[0].Name != "licence" {
		t.Error(diff, left.odd)
	}
	if got := parseReservations("No reservations in the system\n\nReservationName=\n", new(table)); len(got) != 0 {
		t.Error(got)
	}
}
