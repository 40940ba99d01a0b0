package slurmplug

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unique"
)

// Value is what one field of a job holds, or what is written there: nothing, a number, a
// text such as a constraint or a list of nodes, a size, or a begin time. Values compare
// by ==. As text, in JSON too, a Value is what scontrol takes: Lever.Value reads it.
type Value struct {
	kind   valueKind
	number int64 // of a begin time: seconds
	text   string
	size   unique.Handle[SizeRequest] // so that a Value is small
}

type valueKind uint8

const (
	noValue valueKind = iota
	aNumber
	aText
	aSize
	aDelay
)

// Number is a value of a lever that ranks jobs, or an amount of memory in MB.
func Number(n int64) Value { return Value{kind: aNumber, number: n} }

// Text is a constraint, a list of nodes or the like; "" is no value.
func Text(s string) Value {
	if s == "" {
		return Value{}
	}
	return Value{kind: aText, text: s}
}

// Delay is a begin time so long from now, in whole seconds.
func Delay(d time.Duration) Value { return Value{kind: aDelay, number: int64(d / time.Second)} }

// beginLayout is how squeue shows a time and scontrol takes one, in this host's time zone.
const beginLayout = "2006-01-02T15:04:05"

// BeginAt is a begin time as a value of the lever StartTime, in whole seconds.
func BeginAt(t time.Time) Value { return Text(t.Local().Format(beginLayout)) }

// LimitOf is a time limit as a value of the lever TimeLimit.
func LimitOf(d time.Duration) Value { return Text(FormatTimeLimit(d)) }

// Limit is the time limit of LimitOf; false for any other value.
func (v Value) Limit() (d time.Duration, is bool) {
	d, err := ParseTimeLimit(v.text)
	return d, err == nil && d != 0 && v.kind == aText
}

// AtOnce is the begin time of a job that may start now.
var AtOnce = Text("now")

// Begin is the time of BeginAt; false for any other value.
func (v Value) Begin() (at time.Time, is bool) {
	at, err := time.ParseInLocation(beginLayout, v.text, time.Local)
	return at, err == nil && v.kind == aText
}

// Value is the size as a value of the lever Size.
func (s SizeRequest) Value() Value { return Value{kind: aSize, size: unique.Make(s)} }

// Value reads a value of the lever as String writes it. What String would write in
// another way, or cannot be a value of the lever, is kept as a text, so nothing is lost.
func (l Lever) Value(text string) Value {
	switch l {
	case SiteFactor:
		if n, err := strconv.ParseInt(text, 10, 64); err == nil && strconv.FormatInt(n, 10) == text {
			return Number(n)
		}
	case Size:
		if s, err := parseSize(text); err == nil && s.String() == text {
			return s.Value()
		}
	}
	return Text(text)
}

// Number is the number; 0 for what is none.
func (v Value) Number() int64 {
	if v.kind == aNumber {
		return v.number
	}
	return 0
}

// IsNumber reports whether there is a Number.
func (v Value) IsNumber() bool { return v.kind == aNumber }

// Size is the size; its zero value for what is none.
func (v Value) Size() SizeRequest {
	if v.kind == aSize {
		return v.size.Value()
	}
	return SizeRequest{}
}

// Delay is how far off a begin time is; 0 for what is none.
func (v Value) Delay() time.Duration {
	if v.kind == aDelay {
		return time.Duration(v.number) * time.Second
	}
	return 0
}

// String is the value as scontrol takes it; "" for none.
func (v Value) String() string {
	switch v.kind {
	case aNumber:
		return strconv.FormatInt(v.number, 10)
	case aSize:
		return v.Size().String()
	case aDelay:
		return "now+" + strconv.FormatInt(v.number, 10)
	}
	return v.text
}

// Words are the value for people.
func (v Value) Words() string { return cmp.Or(v.String(), "none") }

// Equal is ==, for packages that need a method.
func (v Value) Equal(o Value) bool { return v == o }

// MarshalText is String.
func (v Value) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText reads the value as a text; with a known lever use Lever.Value.
func (v *Value) UnmarshalText(text []byte) error {
	*v = Text(string(text))
	return nil
}

// SizeRequest is a value of the lever Size: CPUs and memory of a job on its one node, in
// the words of one scontrol update. What is 0 or "" the update does not say, but Nodes.
type SizeRequest struct {
	PerTask int // CPUsPerTask
	PerNode int // MinCPUsNode
	CPUs    int // NumCPUs
	PerGPU  int // CpusPerTres

	Memory int64  // MB
	By     Memory // what Memory is for

	GPUs  string // how the job asks for them, where CPUs or memory count by GPU: "TresPerNode=gres:gpu:2"
	Nodes string // ReqNodeList: "" is any node

	prefix string // of what is by GPU in this Slurm: "gres:" up to 23.02, then "gres/"
}

// String is the size as words of an update, in one order.
func (s SizeRequest) String() string {
	var words []string
	say := func(key string, value int64) { words = append(words, key+"="+strconv.FormatInt(value, 10)) }
	byGPU := func(key string, value int64) { words = append(words, fmt.Sprintf("%s=%sgpu:%d", key, s.prefix, value)) }
	if s.PerGPU > 0 {
		byGPU("CpusPerTres", int64(s.PerGPU))
	}
	for _, n := range []struct {
		key   string
		value int
	}{{"CPUsPerTask", s.PerTask}, {"MinCPUsNode", s.PerNode}, {"NumCPUs", s.CPUs}} {
		if n.value > 0 {
			say(n.key, int64(n.value))
		}
	}
	switch s.By {
	case ByNode:
		say("MinMemoryNode", s.Memory)
	case ByCPU:
		say("MinMemoryCPU", s.Memory)
	case ByGPU:
		byGPU("MemPerTres", s.Memory)
	}
	if s.GPUs != "" {
		words = append(words, s.GPUs)
	}
	return strings.Join(append(words, string(ReqNodeList)+"="+s.Nodes), " ")
}

// parseSize reads words as String writes them.
func parseSize(text string) (s SizeRequest, err error) {
	for word := range strings.SplitSeq(text, " ") {
		key, value, _ := strings.Cut(word, "=")
		number := func(text string) int64 {
			n, bad := parseUint(text, math.MaxInt64)
			if bad != nil {
				err = fmt.Errorf("%s: %.40q: %w", Size, word, bad)
			}
			return int64(n)
		}
		cpus := func() int { return int(min(number(value), math.MaxInt32)) }
		byGPU := func() int64 {
			at := strings.LastIndexByte(value, ':') + 1
			s.prefix = strings.TrimSuffix(value[:at], "gpu:")
			return number(value[at:])
		}
		switch key {
		case "CPUsPerTask":
			s.PerTask = cpus()
		case "MinCPUsNode":
			s.PerNode = cpus()
		case "NumCPUs":
			s.CPUs = cpus()
		case "CpusPerTres":
			s.PerGPU = int(min(byGPU(), math.MaxInt32))
		case "MinMemoryNode":
			s.Memory, s.By = number(value), ByNode
		case "MinMemoryCPU":
			s.Memory, s.By = number(value), ByCPU
		case "MemPerTres":
			s.Memory, s.By = byGPU(), ByGPU
		case "TresPerJob", "TresPerNode", "TresPerTask":
			s.GPUs = word
		case string(ReqNodeList):
			s.Nodes = value
		default:
			err = fmt.Errorf("%s: %.40q is no word of a size", Size, word)
		}
	}
	return s, err
}
