package slurmplug

import (
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
)

// maxTasks bounds what one task list may expand to; Slurm's own limit is
// MaxArraySize <= 4,000,001 (slurm.conf).
const maxTasks = 4_000_001

// taskRange is one item of a task list: first, first+step, ... up to last.
type taskRange struct{ first, last, step int32 }

func (r taskRange) count() int { return int(r.last-r.first)/int(r.step) + 1 }

// parseTasks reads "1-9:2,12" with an optional "%limit", and brackets around
// both.
func parseTasks(list string) ([]taskRange, error) {
	s := list
	if rest, ok := strings.CutPrefix(s, "["); ok {
		if s, ok = strings.CutSuffix(rest, "]"); !ok {
			return nil, fmt.Errorf("array tasks %.80q: [ without ]", list)
		}
	}
	s, limit, limited := strings.Cut(s, "%")
	if limited {
		if _, err := taskNumber(limit); err != nil {
			return nil, fmt.Errorf("array tasks %.80q: %w", list, err)
		}
	}
	var ranges []taskRange
	total := 0
	for item := range strings.SplitSeq(s, ",") {
		r, err := parseTaskRange(item)
		if err != nil {
			return nil, fmt.Errorf("array tasks %.80q: %w", list, err)
		}
		if total += r.count(); total > maxTasks {
			return nil, fmt.Errorf("array tasks %.80q: more than %d tasks", list, maxTasks)
		}
		ranges = append(ranges, r)
	}
	return ranges, nil
}

func parseTaskRange(item string) (taskRange, error) {
	span, stepText, stepped := strings.Cut(item, ":")
	firstText, lastText, isRange := strings.Cut(span, "-")
	r := taskRange{step: 1}
	var err error
	if r.first, err = taskNumber(firstText); err != nil {
		return r, err
	}
	r.last = r.first
	if isRange {
		if r.last, err = taskNumber(lastText); err != nil {
			return r, err
		}
	}
	if stepped {
		if r.step, err = taskNumber(stepText); err != nil {
			return r, err
		}
	}
	if r.last < r.first || r.step == 0 || stepped && !isRange {
		return r, fmt.Errorf("%.40q is no range of tasks", item)
	}
	return r, nil
}

func taskNumber(s string) (int32, error) {
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil {
		return 0, fmt.Errorf("%.40q is no task number", s)
	}
	return int32(n), nil
}

func eachTask(ranges []taskRange) iter.Seq[int32] {
	return func(yield func(int32) bool) {
		for _, r := range ranges {
			for t := int64(r.first); t <= int64(r.last); t += int64(r.step) {
				if !yield(int32(t)) {
					return
				}
			}
		}
	}
}

// CountTasks says how many tasks a list such as "1-9:2,12%4" names.
func CountTasks(list string) (int, error) {
	ranges, err := parseTasks(list)
	n := 0
	for _, r := range ranges {
		n += r.count()
	}
	return n, err
}

// HasTask reports whether a list such as "1-9:2,12%4" names a task.
func HasTask(list string, task int32) (bool, error) {
	ranges, err := parseTasks(list)
	return slices.ContainsFunc(ranges, func(r taskRange) bool {
		return r.first <= task && task <= r.last && (task-r.first)%r.step == 0
	}), err
}

// ExpandTasks lists the tasks that a list such as "1-9:2,12%4" names.
func ExpandTasks(list string) ([]int32, error) {
	ranges, err := parseTasks(list)
	if err != nil {
		return nil, err
	}
	return slices.Collect(eachTask(ranges)), nil
}

// FirstTasks returns the list of the first n tasks, "" for n = 0; a shorter
// list comes back whole.
func FirstTasks(list string, n int) (string, error) {
	ranges, err := parseTasks(list)
	if err != nil {
		return "", err
	}
	var tasks []int32
	for t := range eachTask(ranges) {
		if len(tasks) == n {
			break
		}
		tasks = append(tasks, t)
	}
	return CompactTasks(tasks), nil
}

// CompactTasks writes rising task numbers as scontrol takes them: "1-3,7".
func CompactTasks(tasks []int32) string {
	var b strings.Builder
	for i := 0; i < len(tasks); {
		end := i
		for end+1 < len(tasks) && tasks[end+1] == tasks[end]+1 {
			end++
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(int(tasks[i])))
		if end > i {
			b.WriteByte('-')
			b.WriteString(strconv.Itoa(int(tasks[end])))
		}
		i = end + 1
	}
	return b.String()
}
