package trace

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"slurmprio/priod/cluster"
)

// column is one column of our CSV: how it is read into a job and written from
// one. set returns what was wanted, "" when the value is good.
type column struct {
	name   string
	text   bool // few different values, but for job_id
	spoken bool // written where the column is, even if a missing value means the same
	set    func(*Job, string) (want string)
	append func([]byte, *Job) []byte
	unset  func(*Job) bool // the value is what a missing column means
}

// columns of our CSV, in the order in which they are written.
var columns = append([]column{
	textColumn("job_id", func(j *Job) *string { return &j.ID }),
	spoken(secondsColumn("submit_s", func(j *Job) *float64 { return &j.Submit })),
	spoken(countColumn("gpus", 0, func(j *Job) *int { return &j.GPUs })),
	secondsColumn("duration_s", func(j *Job) *float64 { return &j.Duration }),
	textColumn("workload", func(j *Job) *string { return &j.Workload }),
	numberColumn("steps", 0, maxWork, "steps from 0", 0, func(j *Job) *float64 { return &j.Steps }),
	secondsColumn("limit_s", func(j *Job) *float64 { return &j.Limit }),
	{
		name: "type", spoken: true,
		set: func(j *Job, s string) string {
			switch s {
			case "te":
				j.Class, j.Untagged, j.NoTag = cluster.TE, false, false
			case "be":
				j.Class, j.Untagged, j.NoTag = cluster.BE, false, false
			case "untagged":
				j.Class, j.Untagged, j.NoTag = cluster.BE, true, false
			case "none":
				j.Class, j.Untagged, j.NoTag = cluster.BE, true, true
			default:
				return "te, be, untagged or none"
			}
			return ""
		},
		append: func(b []byte, j *Job) []byte {
			switch {
			case j.NoTag:
				return append(b, "none"...)
			case j.Untagged:
				return append(b, "untagged"...)
			}
			return append(b, j.Class.String()...)
		},
		unset: func(j *Job) bool { return j.Class == cluster.BE && !j.Untagged },
	},
	secondsColumn("grace_s", func(j *Job) *float64 { return &j.Grace }),
	secondsColumn("ckpt_s", func(j *Job) *float64 { return &j.Ckpt }),
	countColumn("cpus", 0, func(j *Job) *int { return &j.CPUs }),
	{
		name: "mem_mb",
		set: func(j *Job, s string) string {
			n, ok := whole(s, maxMemMB)
			if !ok {
				return "a whole number of MB from 0"
			}
			j.MemMB = n
			return ""
		},
		append: func(b []byte, j *Job) []byte { return strconv.AppendInt(b, j.MemMB, 10) },
		unset:  func(j *Job) bool { return j.MemMB == 0 },
	},
	countColumn("nodes", 0, func(j *Job) *int { return &j.Nodes }),
	textColumn("user", func(j *Job) *string { return &j.User }),
	textColumn("account", func(j *Job) *string { return &j.Account }),
	textColumn("qos", func(j *Job) *string { return &j.QOS }),
	textColumn("partition", func(j *Job) *string { return &j.Partition }),
	numberColumn("weight", math.SmallestNonzeroFloat64, 1e9, "a weight above 0", 1, func(j *Job) *float64 { return &j.Weight }),
	textColumn("gpu_type", func(j *Job) *string { return &j.GPUType }),
	numberColumn("deadline_s", 0, maxSeconds, "seconds from 0", NoDeadline, func(j *Job) *float64 { return &j.Deadline }),
	secondsColumn("start_s", func(j *Job) *float64 { return &j.Start }),
	secondsColumn("end_s", func(j *Job) *float64 { return &j.End }),
	secondsColumn("ran_s", func(j *Job) *float64 { return &j.Ran }),
	secondsColumn("idle_after_s", func(j *Job) *float64 { return &j.IdleAfter }),
}, trialColumns()...)

func spoken(c column) column {
	c.spoken = true
	return c
}

// columnNames are what a header may hold.
func columnNames() []string {
	names := make([]string, len(columns))
	for i := range columns {
		names[i] = columns[i].name
	}
	return names
}

func columnIndex(name string) int {
	return slices.IndexFunc(columns, func(c column) bool { return c.name == name })
}

func textColumn(name string, field func(*Job) *string) column {
	return column{
		name: name, text: true,
		set: func(j *Job, s string) string {
			if !validText(s) {
				return "printable text of at most " + strconv.Itoa(maxText) + " bytes"
			}
			*field(j) = s
			return ""
		},
		append: func(b []byte, j *Job) []byte { return append(b, *field(j)...) },
		unset:  func(j *Job) bool { return *field(j) == "" },
	}
}

const maxText = 256

// validText keeps what a terminal or a later CSV could trip over out of a trace.
func validText(s string) bool {
	return len(s) <= maxText && utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

func secondsColumn(name string, field func(*Job) *float64) column {
	return numberColumn(name, 0, maxSeconds, "seconds from 0 to 1e12", 0, field)
}

// numberColumn is unset when it holds the default.
func numberColumn(name string, low, high float64, want string, unset float64, field func(*Job) *float64) column {
	return column{
		name: name,
		set: func(j *Job, s string) string {
			n, ok := number(s)
			if !ok || n < low || n > high {
				return want
			}
			*field(j) = n
			return ""
		},
		append: func(b []byte, j *Job) []byte { return appendNumber(b, *field(j)) },
		unset:  func(j *Job) bool { return *field(j) == unset },
	}
}

func countColumn(name string, low int, field func(*Job) *int) column {
	want := "a whole number from " + strconv.Itoa(low) + " to " + strconv.Itoa(maxGPUs)
	return column{
		name: name,
		set: func(j *Job, s string) string {
			n, ok := whole(s, maxGPUs)
			if !ok || n < int64(low) {
				return want
			}
			*field(j) = int(n)
			return ""
		},
		append: func(b []byte, j *Job) []byte { return strconv.AppendInt(b, int64(*field(j)), 10) },
		unset:  func(j *Job) bool { return *field(j) == 0 },
	}
}

// number reads a decimal number; no hexadecimal, no Inf, no NaN, which
// ParseFloat would take.
func number(s string) (float64, bool) {
	for i := range len(s) {
		switch c := s[i]; {
		case '0' <= c && c <= '9', c == '.', c == '-', c == '+', c == 'e', c == 'E':
		default:
			return 0, false
		}
	}
	n, err := strconv.ParseFloat(s, 64)
	return n + 0, err == nil // -0 is 0
}

// whole reads a number without a fraction from 0 to limit, "8" or "8.0".
func whole(s string, limit int64) (int64, bool) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		f, ok := number(s)
		if !ok || f != math.Trunc(f) || f < 0 || f > float64(limit) {
			return 0, false
		}
		n = int64(f)
	}
	return n, n >= 0 && n <= limit
}

// appendNumber writes the shortest text that reads back the same.
func appendNumber(b []byte, n float64) []byte {
	if n != 0 && (n < 1e-6 || n >= 1e15) {
		return strconv.AppendFloat(b, n, 'e', -1, 64)
	}
	return strconv.AppendFloat(b, n, 'f', -1, 64)
}
