package slurmplug

import (
	"fmt"
	"iter"
	"math"
	"strconv"
	"strings"
)

// Gres is one generic resource of a node or a request: "gpu:a100:4".
type Gres struct {
	Name  string // "gpu"
	Type  string // "a100", "" when untyped
	Count int64
	On    int64 // GPUs on which shards or MPS in use lie, which no job gets whole: 1 of "shard:2(IDX:0)" and "shard:2(2/4,0/4)"; 0 of others
}

// String writes the resource as --gres takes it: "gpu:a100:4".
func (g Gres) String() string {
	if g.Type == "" {
		return g.Name + ":" + strconv.FormatInt(g.Count, 10)
	}
	return g.Name + ":" + g.Type + ":" + strconv.FormatInt(g.Count, 10)
}

// maxGres bounds one list; a node has a handful.
const maxGres = 256

// ParseGres reads a list of generic resources in every form that Slurm prints:
// "gpu:a100:4(S:0-1)", "gpu:a100:1(IDX:0,4-5)", "gpu:8", "gpu" (one), and with
// the prefix of a request, "gres:gpu:a100:2" (up to 23.02) or
// "gres/gpu:a100:2" (from 23.11). "", "(null)" and "N/A" are no resources.
//
// Up to 22.05 untyped devices with Cores= in gres.conf are "gpu:(null):4(IDX:0-3)"
// when they are in use (common/gres.c, _node_gres_used). Devices without files of
// their own are "gpu:h100(CNT:4)" (_build_gres_alloc_string of slurmctld).
func ParseGres(list string) ([]Gres, error) {
	if isUnset(list) {
		return nil, nil
	}
	var all []Gres
	for item := range listItems(list) {
		g, err := parseGres(item)
		if err != nil {
			return nil, fmt.Errorf("GRES %.80q: %w", list, err)
		}
		if all = append(all, g); len(all) > maxGres {
			return nil, fmt.Errorf("GRES %.80q: more than %d resources", list, maxGres)
		}
	}
	return all, nil
}

func parseGres(item string) (Gres, error) {
	s := item
	for _, prefix := range []string{"gres:", "gres/"} {
		if rest, ok := strings.CutPrefix(s, prefix); ok {
			s = rest
			break
		}
	}
	s = strings.Replace(s, ":(null)", "", 1) // a type that is not there
	s, notes, bracket := strings.Cut(s, "(")
	g := Gres{Count: 1}
	counted := ""
	for bracket {
		note, rest, ok := strings.Cut(notes, ")")
		if notes, bracket = strings.CutPrefix(rest, "("); !ok || !bracket && rest != "" {
			return g, fmt.Errorf("%.40q: brackets do not match", item)
		}
		if err := checkNote(note); err != nil {
			return g, fmt.Errorf("%.40q: %w", item, err)
		}
		if Shares(s) {
			g.On += gpusOf(note)
		}
		if n, ok := strings.CutPrefix(note, "CNT:"); ok {
			counted = n
		}
	}
	parts := strings.Split(strings.Replace(s, "=", ":", 1), ":") // 24.05 and later may write gres/gpu=2
	g.Name, parts = parts[0], parts[1:]
	if counted != "" && counted != "N/A" && (len(parts) == 0 || len(parts) == 1 && parts[0] != counted) {
		parts = append(parts, counted) // what stands before is the type, even "2080"
	}
	if n := len(parts); n > 0 && parts[n-1] != "" && isDigit(parts[n-1][0]) {
		if count, err := parseCount(parts[n-1]); err == nil {
			g.Count, parts = count, parts[:n-1]
		} else if n > 1 || strings.Trim(parts[0], "0123456789") == "" { // a lone "3g.20gb" is a type
			return g, fmt.Errorf("%.40q: %w", item, err)
		}
	}
	if n := len(parts); n > 0 && parts[n-1] == "no_consume" {
		parts = parts[:n-1]
	}
	switch {
	case len(parts) == 1:
		if g.Type = parts[0]; !isGresWord(g.Type) {
			return g, fmt.Errorf("%.40q: the type is no word", item)
		}
	case len(parts) > 1:
		return g, fmt.Errorf("%.40q: want NAME[:TYPE][:COUNT]", item)
	}
	if !isGresWord(g.Name) || g.Name == "gres" || strings.Contains(g.Name, "/") { // which are a prefix and its end
		return g, fmt.Errorf("%.40q: the name is no word", item)
	}
	return g, nil
}

// checkNote looks at what stands in brackets behind the count: which devices are
// in use ("IDX:0,4-5"), their sockets ("S:0-1"), the shares of a shard. None of it
// says more than the count.
func checkNote(s string) error {
	_, value, _ := strings.Cut(s, ":")
	if value != "N/A" && strings.Trim(value, "0123456789,-/") != "" {
		return fmt.Errorf("%.40q is no list of devices", value)
	}
	return nil
}

// Shares reports whether a GRES, by its name and what may follow, is parts of GPUs: while one of its parts is in
// use, no job gets that GPU whole (common/gres.c, gres_id_shared).
func Shares(gres string) bool {
	return strings.HasPrefix(gres, "shard") || strings.HasPrefix(gres, "mps")
}

// gpusOf counts the GPUs that a note on parts in use names: "IDX:0,4-5" (up to 22.05), or what is in use of each,
// "2/4,0/4" (from 23.02), "-/4" of one in use as a whole (seen on 22.05.8, 24.11.5, 26.05.5).
func gpusOf(note string) (n int64) {
	list, indices := strings.CutPrefix(note, "IDX:")
	for part := range strings.SplitSeq(list, ",") {
		used, _, fraction := strings.Cut(part, "/")
		from, to, ranged := strings.Cut(part, "-")
		a, failed := parseUint(from, math.MaxInt16)
		b, err := parseUint(to, math.MaxInt16)
		switch {
		case !indices && fraction && strings.Trim(used, "0-") != "", indices && !ranged && failed == nil:
			n++
		case indices && ranged && failed == nil && err == nil && b >= a:
			n += int64(b-a) + 1
		}
	}
	return n
}

// isGresWord reports whether s can name a GRES or its type. sbatch --hold lets
// any text through, so the alphabet is closed here.
func isGresWord(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', isDigit(c), c == '_', c == '-', c == '.', c == '+', c == '/':
		default:
			return false
		}
	}
	return s != ""
}

// listItems goes through a list with commas, as cutList cuts it.
func listItems(list string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for rest, more := list, true; more; {
			var item string
			if item, rest, more = cutList(rest); !yield(item) {
				return
			}
		}
	}
}

// cutList cuts s at the first comma that stands outside round and square brackets.
func cutList(s string) (before, after string, found bool) {
	depth := 0
	for i := range len(s) {
		switch c := s[i]; {
		case c == '(' || c == '[':
			depth++
		case c == ')' || c == ']':
			depth--
		case c == ',' && depth <= 0:
			return s[:i], s[i+1:], true
		}
	}
	return s, "", false
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// isUnset reports whether Slurm prints s for a value that is not there.
func isUnset(s string) bool {
	switch s {
	case "", "(null)", "N/A", "n/a", "NONE", "None", "Unknown", "None assigned":
		return true
	}
	return false
}

// ParseGPUOption reads the value of one of sbatch's options that ask for GPUs:
// a list of generic resources for "gres"; for the others ("gpus",
// "gpus-per-node", "gpus-per-task") TYPE:COUNT, TYPE or COUNT.
func ParseGPUOption(option, value string) ([]Gres, error) {
	if option == "gres" {
		return ParseGres(value)
	}
	all, err := ParseGres("gpu:" + value)
	if err == nil && len(all) != 1 {
		err = fmt.Errorf("%.40q: want one GPU type", value)
	}
	return all, err
}

// WithGPUType names the GPU type in the value of such an option and leaves the
// rest of it.
func WithGPUType(option, value, gpuType string) (string, error) {
	all, err := ParseGPUOption(option, value)
	if err != nil {
		return "", err
	}
	words := make([]string, len(all))
	for i, g := range all {
		if g.Name == "gpu" {
			g.Type = gpuType
		}
		words[i] = g.String()
	}
	list := strings.Join(words, ",")
	if option != "gres" {
		list = strings.TrimPrefix(list, "gpu:")
	}
	return list, nil
}
