package slurmplug

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// oddTable is a reader of rows, what it makes of good ones and what its bad ones are.
type oddTable struct {
	good  func(id int) string
	bad   func(id int) string // in the same place as a good one would be, id is in its name
	name  func(id int) string // as an odd row is named
	parse func(rows string, t *table) (any, error)
}

func tables() map[string]oddTable {
	s := RecordedSeparators
	number := func(id int) string { return fmt.Sprint(id) }
	squeue := func(fields ...string) string { return strings.Join(fields, s.field) + s.end + "\n" }
	sized := strings.Repeat("|", len(qosLimits)+1)
	return map[string]oddTable{
		"usage": {
			func(id int) string {
				return usageRow(number(id), "100", "900", "", "", "1") + usageRow(number(id)+".0", "100", "200", "00:01:00", "1G", "1", "1")
			},
			func(id int) string { return usageRow(number(id), "100", "900", "", "", "many") },
			number,
			func(rows string, t *table) (any, error) { return parseUsage([]byte(rows), s, t) },
		},
		"ends": {
			func(id int) string { return fmt.Sprintf("%d|1:0|||1\n%d.0|1:0|1G|1|1\n", id, id) },
			func(id int) string { return fmt.Sprintf("%d|1|||1\n", id) }, number,
			func(rows string, t *table) (any, error) { return parseEnds(rows, t) },
		},
		"peaks": {
			func(id int) string { return fmt.Sprintf("%d.0|1G|1\n", id) },
			func(id int) string { return fmt.Sprintf("%d.0|16E|1\n", id) }, func(id int) string { return fmt.Sprintf("%d.0", id) },
			func(rows string, t *table) (any, error) { return parsePeaks(rows, t) },
		},
		"QOS": {
			func(id int) string { return fmt.Sprintf("q%d\n", id) },
			func(id int) string { return fmt.Sprintf("q%d|x\n", id) }, func(id int) string { return fmt.Sprintf("q%d|x", id) },
			func(rows string, t *table) (any, error) { return parseQOS(rows, t) },
		},
		"accounts": {
			func(id int) string { return fmt.Sprintf("a%d|root|||7\n", id) },
			func(id int) string { return fmt.Sprintf("a%d|root\n", id) }, func(id int) string { return fmt.Sprintf("a%d|root", id) },
			func(rows string, t *table) (any, error) { return parseAccounts(rows, t) },
		},
		"limits": {
			func(id int) string { return fmt.Sprintf("q%d|cpu=%d%s\n", id, id, sized) },
			func(id int) string { return fmt.Sprintf("q%d|cpu=%d\n", id, id) }, func(id int) string { return fmt.Sprintf("q%d|cpu=%d", id, id) },
			func(rows string, t *table) (any, error) {
				both := [2]table{}
				l, err := parseLimits("", rows, &both)
				*t = both[1]
				return l, err
			},
		},
		"switches": {
			func(id int) string { return squeue(number(id), "1", "20:00") },
			func(id int) string { return squeue(number(id), "1", "soon") }, number,
			func(rows string, t *table) (any, error) { return parseSwitches([]byte(rows), s, t) },
		},
		"topology": {
			func(id int) string { return fmt.Sprintf("SwitchName=s%d Level=0 Nodes=n%d\n", id, id) },
			func(id int) string { return fmt.Sprintf("SwitchName=s%d Level=0 Nodes=n[%d-\n", id, id) }, func(id int) string { return fmt.Sprintf("s%d", id) },
			func(rows string, t *table) (any, error) { return parseTopology([]byte(rows), t) },
		},
		"partitions": {
			func(id int) string {
				return fmt.Sprintf("PartitionName=p%d State=UP MaxTime=UNLIMITED DefaultTime=NONE PriorityTier=1\n", id)
			},
			func(id int) string { return fmt.Sprintf("PartitionName=p%d\n", id) }, func(id int) string { return fmt.Sprintf("PartitionName=p%d", id) },
			func(rows string, t *table) (any, error) { return parsePartitions(rows, t) },
		},
	}
}

// A table with any number of odd rows among the good ones gives all of these and names the odd ones; where they are more than
// half it is not believed.
func TestOddRows(t *testing.T) {
	all := tables()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		x := all[name]
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				rows, named := []string{}, []string{}
				for id := range rapid.IntRange(1, 6).Draw(t, "good") {
					rows = append(rows, x.good(id+1))
				}
				want, err := x.parse(strings.Join(rows, ""), new(table))
				if err != nil {
					t.Fatal(err)
				}
				for id := range rapid.IntRange(0, 8).Draw(t, "odd") {
					rows = slices.Insert(rows, rapid.IntRange(0, len(rows)).Draw(t, "place"), x.bad(100+id))
					named = append(named, x.name(100+id))
				}
				var left table
				got, err := x.parse(strings.Join(rows, ""), &left)
				if 2*len(named) > left.rows {
					if err == nil {
						t.Fatalf("%d odd rows of %d: %+v", len(named), left.rows, got)
					}
					return
				}
				if err != nil || !reflect.DeepEqual(want, got) {
					t.Fatalf("%+v, %v, want %+v", got, err, want)
				}
				seen := []string{}
				for _, r := range left.odd {
					seen = append(seen, r.Name)
				}
				slices.Sort(seen)
				if slices.Sort(named); !slices.Equal(seen, named) {
					t.Fatalf("named %q, want %q", seen, named)
				}
			})
		})
	}
}

// A limit that cannot be read is no freedom from it.
func TestOddLimit(t *testing.T) {
	l, err := parseLimits("root|||"+strings.Repeat("|", len(assocLimits))+"\na|||root|cpu=4"+strings.Repeat("|", len(assocLimits)-1)+"\na|ann|||cpu=many"+strings.Repeat("|", len(assocLimits)-1)+"\n", "", new([2]table))
	if err != nil {
		t.Fatal(err)
	}
	if _, fixed := l.Of("ann", "a", "p"); !strings.Contains(fixed, "GrpTRES: TRES") {
		t.Errorf("%q", fixed)
	}
}

// What is left out is remembered once, the newest last, and not without end.
func TestUnreadRows(t *testing.T) {
	c := NewClient(nil, Options{})
	for i := range mostUnread + 5 {
		left := table{name: "accounting"}
		left.row(fmt.Sprint(i), nil)
		left.row(fmt.Sprint(i), fmt.Errorf("odd"))
		c.leave(&left, nil)
		c.leave(&left, nil)
		c.leave(&table{odd: left.odd}, fmt.Errorf("it was not read at all"))
	}
	if rows := c.Unread(); len(rows) != mostUnread || rows[0].Name != "5" || rows[mostUnread-1] != (UnreadRow{"accounting", fmt.Sprint(mostUnread + 4), "odd"}) {
		t.Errorf("%d rows, %+v", len(rows), rows)
	}
}
