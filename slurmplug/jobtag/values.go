package jobtag

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Limits of values. They keep a tag readable in plain decimals and far from
// what float64 or Slurm could not hold.
const (
	maxSeconds = math.MaxInt32
	minNumber  = 1e-6
	maxNumber  = 1e15
	maxName    = 64
)

// signals that a program can catch, by the names that Slurm knows
// (src/common/proc_args.c, sig_name2num).
var signals = []string{"HUP", "INT", "QUIT", "ABRT", "ALRM", "TERM", "USR1", "USR2", "URG", "CONT", "TSTP", "TTIN", "TTOU"}

// ValidName reports whether s can name a workload or a GRES type in a tag: 1 to
// 64 letters, digits, '.', '-' and '_', the first one a letter, digit or '_'.
func ValidName(s string) bool {
	if s == "" || len(s) > maxName || s[0] == '.' || s[0] == '-' {
		return false
	}
	for i := range len(s) {
		if c := s[i]; !letter(c) && !digit(c) && c != '.' && c != '-' && c != '_' {
			return false
		}
	}
	return true
}

func letter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
func digit(c byte) bool  { return '0' <= c && c <= '9' }

// Set gives one key of the tag a value as it stands in the tag ("grace",
// "300"). The error, an *Error, names key and value and says what is wanted;
// the Tag is then unchanged. "v" and the keys of old tags are none of Set.
func (t *Tag) Set(key, value string) error {
	want := ""
	switch key {
	case "type":
		want = setWord(&t.Type, value, "te", "be", None)
	case "retry":
		want = setWord(&t.Retry, value, "never", "infra", "always")
	case "grace":
		want = setSeconds(&t.Grace, value)
	case "ckpt":
		want = setSeconds(&t.Ckpt, value)
	case "signal":
		if !slices.Contains(signals, strings.TrimPrefix(value, "B:")) {
			want = "want a signal that a program can catch, such as USR1, or B:USR1 for the batch shell alone"
			break
		}
		t.Signal = value
	case "workload":
		if !ValidName(value) {
			want = wantName
			break
		}
		t.Workload = value
	case "speed":
		want = setSpeeds(&t.Speed, value)
	case "cpu":
		want = setCurves(&t.CPU, value)
	case "mem":
		want = setCurves(&t.Mem, value)
	case "steps":
		n, ok := number(value)
		if !ok {
			want = wantNumber
			break
		}
		t.Steps = n
	default:
		return &Error{Key: key, Reason: "no such key"}
	}
	if want != "" {
		return &Error{Key: key, Value: value, Reason: want}
	}
	return nil
}

const (
	wantName   = "want 1 to 64 letters, digits, '.', '-' or '_'"
	wantNumber = "want a plain number from 0.000001 to 1000000000000000"
	wantSpeeds = "want TYPE:SPEED for each GPU type, such as a100:1,v100:0.45, with plain numbers above 0"
	wantCurves = "want TYPE:AMOUNTxSPEED-AMOUNTxSPEED for each GPU type, amounts rising, such as a100:3x1-9x2.4"
)

func setWord(to *string, value string, words ...string) string {
	if !slices.Contains(words, value) {
		last := len(words) - 1
		return "want " + strings.Join(words[:last], ", ") + " or " + words[last]
	}
	*to = value
	return ""
}

func setSeconds(to *time.Duration, value string) string {
	n, err := strconv.ParseUint(value, 10, 31)
	if err != nil || n == 0 {
		return "want whole seconds, 1 to " + strconv.Itoa(maxSeconds)
	}
	*to = time.Duration(n) * time.Second
	return ""
}

// number reads digits with at most one point after the first: what 'f'
// formatting writes, so that a tag never grows when it is rewritten. No
// sign, exponent, hexadecimal, Inf or NaN, all of which ParseFloat would take.
func number(s string) (float64, bool) {
	if strings.HasPrefix(s, ".") {
		return 0, false
	}
	for i := range len(s) {
		if !digit(s[i]) && s[i] != '.' {
			return 0, false
		}
	}
	n, err := strconv.ParseFloat(s, 64)
	return n, err == nil && validNumber(n)
}

func validNumber(n float64) bool { return n >= minNumber && n <= maxNumber }

// setSpeeds reads "a100:1,v100:0.45".
func setSpeeds(to *map[string]float64, value string) string {
	speeds := make(map[string]float64, 1+strings.Count(value, ","))
	for item := range strings.SplitSeq(value, ",") {
		name, text, _ := strings.Cut(item, ":")
		speed, ok := number(text)
		if !ValidName(name) || !ok {
			return wantSpeeds
		}
		if _, twice := speeds[name]; twice {
			return "GPU type " + name + " stands twice"
		}
		speeds[name] = speed
	}
	*to = speeds
	return ""
}

// setCurves reads "a100:3x1-9x2.4,v100:2x1".
func setCurves(to *map[string]Curve, value string) string {
	curves := make(map[string]Curve, 1+strings.Count(value, ","))
	for item := range strings.SplitSeq(value, ",") {
		name, text, found := strings.Cut(item, ":")
		if !ValidName(name) || !found {
			return wantCurves
		}
		if _, twice := curves[name]; twice {
			return "GPU type " + name + " stands twice"
		}
		curve := make(Curve, 0, 1+strings.Count(text, "-"))
		for point := range strings.SplitSeq(text, "-") {
			a, s, _ := strings.Cut(point, "x")
			amount, okAmount := number(a)
			speed, okSpeed := number(s)
			if !okAmount || !okSpeed {
				return wantCurves
			}
			curve = append(curve, Point{amount, speed})
		}
		if !curve.valid() {
			return wantCurves
		}
		curves[name] = curve
	}
	*to = curves
	return ""
}

func (c Curve) valid() bool {
	for i, p := range c {
		if !validNumber(p.Amount) || !validNumber(p.Speed) || i > 0 && p.Amount <= c[i-1].Amount {
			return false
		}
	}
	return len(c) > 0
}

func appendNumber(b []byte, n float64) []byte { return strconv.AppendFloat(b, n, 'f', -1, 64) }

// appendTyped writes "type:item,type:item" in the order of the types.
func appendTyped[V any](b []byte, m map[string]V, item func([]byte, V) []byte) []byte {
	for i, name := range slices.Sorted(maps.Keys(m)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(b, name...), ':')
		b = item(b, m[name])
	}
	return b
}

func appendCurve(b []byte, c Curve) []byte {
	for i, p := range c {
		if i > 0 {
			b = append(b, '-')
		}
		b = append(appendNumber(b, p.Amount), 'x')
		b = appendNumber(b, p.Speed)
	}
	return b
}
