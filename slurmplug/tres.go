package slurmplug

import (
	"fmt"
	"slices"
	"strings"
)

// TRESCount is one trackable resource: its name as Slurm writes it ("cpu",
// "mem", "gres/gpu:a100") and how much of it: MB for mem, bytes for energy's
// like, else a plain number.
type TRESCount struct {
	Name  string
	Count int64
}

// TRES is what a job asks for or holds, in the order in which Slurm wrote it.
// Order differs between Slurm's tools.
type TRES []TRESCount

// maxTRES bounds one list; a cluster tracks a few dozen at most.
const maxTRES = 1024

// ParseTRES reads "cpu=8,mem=62.50G,gres/gpu=4,gres/gpu:a100=4". "" and
// "(null)" are no resources.
func ParseTRES(list string) (TRES, error) {
	if isUnset(list) {
		return nil, nil
	}
	var all TRES
	for item := range strings.SplitSeq(list, ",") {
		name, amount, ok := strings.Cut(item, "=")
		if !ok || !isTRESName(name) {
			return nil, fmt.Errorf("TRES %.80q: %.40q is not NAME=COUNT", list, item)
		}
		if amount == noVal64 || amount == infinite64 {
			continue // it was not measured: "energy=18446744073709551614"
		}
		parse := parseCount
		if name == "mem" {
			parse = ParseMemory
		}
		n, err := parse(amount)
		if err != nil {
			return nil, fmt.Errorf("TRES %.80q: %s: %w", list, name, err)
		}
		if _, twice := all.Get(name); twice || len(all) == maxTRES {
			return nil, fmt.Errorf("TRES %.80q: %s comes twice, or there are more than %d", list, name, maxTRES)
		}
		all = append(all, TRESCount{name, n})
	}
	return all, nil
}

// UnmarshalText reads a list as ParseTRES does.
func (t *TRES) UnmarshalText(list []byte) (err error) {
	*t, err = ParseTRES(string(list))
	return err
}

// Slurm's NO_VAL64 and INFINITE64 (slurm.h), which sacct prints as they are.
const noVal64, infinite64 = "18446744073709551614", "18446744073709551615"

// isTRESName accepts "cpu", "gres/gpu:a100", "license/matlab@host", and a licence of several words.
func isTRESName(s string) bool {
	return s != "" && s == strings.TrimSpace(s) && !strings.ContainsFunc(s, func(c rune) bool { return c < ' ' || c >= 0x7f || c == '=' || c == ',' })
}

// Get returns the count of one resource and whether it is listed.
func (t TRES) Get(name string) (int64, bool) {
	for i := range t {
		if t[i].Name == name {
			return t[i].Count, true
		}
	}
	return 0, false
}

// GPUs returns how many GPUs the list counts, and their type: "" when none is
// named, several joined by a comma. Typed and untyped entries count the same
// devices, so they are never added up. ok is false when no GPUs are listed,
// which says little: Slurm lists only what AccountingStorageTRES names.
func (t TRES) GPUs() (gpuType string, count int, ok bool) {
	var types []string
	typed := int64(0)
	for i := range t {
		if name, found := strings.CutPrefix(t[i].Name, "gres/gpu:"); found && t[i].Count > 0 {
			types = append(types, name)
			typed += t[i].Count
		}
	}
	all, ok := t.Get("gres/gpu")
	if typed < all {
		types = nil // some have a type, or none: the whole has none
	}
	slices.Sort(types)
	return strings.Join(types, ","), int(max(all, typed)), ok || typed > 0
}
