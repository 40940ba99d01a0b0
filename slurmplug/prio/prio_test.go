package prio

import "testing"

func TestParseTime(t *testing.T) {
	for text, want := range map[string]string{
		"5": "5m0s", "0": "0s", "5:30": "5m30s", "1:02:03": "1h2m3s", "1-0": "24h0m0s", "2-12:30": "60h30m0s", "1-00:00:01": "24h0m1s",
		"90s": "1m30s", "1h30m": "1h30m0s", "90": "1h30m0s", "1.5h": "1h30m0s",
	} {
		if d, ok := parseTime(text); !ok || d.String() != want {
			t.Errorf("parseTime(%q) = %v, %v; want %s", text, d, ok, want)
		}
	}
	for _, text := range []string{"", "-5", "+5", "abc", "5x", ":5", "5:", "1:2:3:4", "1-", "-1", "1-2-3", "1-1:2:3:4", "5 ", "99999999999999", "999999999-0", "1e3", "∞"} {
		if d, ok := parseTime(text); ok {
			t.Errorf("parseTime(%q) = %v", text, d)
		}
	}
}

func FuzzParseTime(f *testing.F) {
	for _, s := range []string{"5", "1-00:00:00", "90s", "1:2:3", "-", "106751-23:59:59"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if d, ok := parseTime(s); ok && d < 0 {
			t.Fatalf("parseTime(%q) = %v", s, d)
		}
	})
}

// --prio-none beside a type on one command line contradicts it; a variable, or a line of the script, gives way.
func TestNoneStandsAlone(t *testing.T) {
	given := func(where, name, value string) Given { return Given{find(name), value, where + ": --" + name} }
	for _, c := range []struct {
		given []Given
		wrong bool
	}{
		{[]Given{given("command line", "prio-none", "yes"), given("command line", "prio-type", "te")}, true},
		{[]Given{given("command line", "prio-none", "no"), given("command line", "prio-type", "te")}, false},
		{[]Given{given("command line", "prio-none", "yes"), given("command line", "prio-type", "none")}, false},
		{[]Given{given("job.sh, line 2", "prio-type", "te"), given("command line", "prio-none", "yes")}, false},
	} {
		if _, _, err := Tag(c.given); (err != nil) != c.wrong {
			t.Errorf("%+v: %v", c.given, err)
		}
	}
}
