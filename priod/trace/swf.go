package trace

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// The 18 fields of a line of the Standard Workload Format, version 2.2, counted from 0 (Chapin et al., JSSPP'99;
// cs.huji.ac.il/labs/parallel/workload/swf.html): those that a replay goes by. -1: unknown.
const (
	swfJob = iota
	swfSubmit
	swfWait
	swfRun
	swfProcessors // allocated
	_
	_
	swfAskedProcessors
	swfAskedTime
	swfAskedKB // for each processor
	swfStatus
	swfUser
	swfGroup

	swfFields = 18
)

// swfNames are our words for these fields, for errors.
var swfNames = [swfFields]string{"job number", "submit time", "wait time", "run time", "allocated processors", "average CPU time", "used memory",
	"requested processors", "requested time", "requested memory", "status", "user", "group", "executable", "queue", "partition", "preceding job", "think time"}

// swfSource is the Standard Workload Format: comments behind a semicolon, then a line for each job. It knows neither tags
// nor GPU types, so that jobs have agreed to nothing.
type swfSource struct {
	name  string
	text  *bufio.Scanner
	line  int
	gpus  bool // processors are GPUs, not CPUs
	texts interner
	stats *Stats
}

func newSWFSource(name string, text io.Reader, gpus bool, stats *Stats) *swfSource {
	s := &swfSource{name: name, text: bufio.NewScanner(text), gpus: gpus, texts: interner{}, stats: stats}
	s.text.Buffer(nil, maxLine)
	return s
}

// At is what is wrong with a value of the line that was read last.
func (s *swfSource) At(key, value, want string) *RowError {
	return &RowError{Name: s.name, Line: s.line, Column: 1, Key: key, Value: value, Want: want}
}

// Next reads the next job that ran. Lines of status 2 to 4 are parts of a job whose own line stands before them.
func (s *swfSource) Next() (Job, error) {
	for s.text.Scan() {
		s.line++
		line := strings.TrimSpace(s.text.Text())
		if line == "" || strings.HasPrefix(line, ";") {
			continue
		}
		v, err := s.fields(line)
		switch {
		case err != nil:
			return Job{}, err
		case v[swfStatus] >= 2 && v[swfStatus] <= 4:
			s.stats.skip(skipEarlier)
		case v[swfRun] <= 0:
			s.stats.skip(skipNotStarted)
		default:
			return s.job(&v)
		}
	}
	if err := s.text.Err(); err != nil {
		return Job{}, fmt.Errorf("%s:%d: %w", s.name, s.line, err)
	}
	return Job{}, io.EOF
}

func (s *swfSource) fields(line string) (v [swfFields]float64, err error) {
	words := strings.Fields(line)
	if len(words) != swfFields {
		return v, &RowError{Name: s.name, Line: s.line, Want: fmt.Sprintf("%d fields, want %d", len(words), swfFields)}
	}
	for i, w := range words {
		n, ok := number(w)
		if !ok || n < -1 || n > maxSeconds {
			return v, s.At(swfNames[i], w, "a number from 0, or -1 for unknown")
		}
		v[i] = n
	}
	return v, nil
}

func (s *swfSource) job(v *[swfFields]float64) (Job, error) {
	j := NewJob()
	whole := func(field int) string { return strconv.FormatFloat(v[field], 'f', -1, 64) }
	processors := v[swfAskedProcessors]
	if processors <= 0 {
		processors = v[swfProcessors]
	}
	switch {
	case v[swfJob] < 0:
		return Job{}, s.At(swfNames[swfJob], whole(swfJob), "a number from 0")
	case v[swfSubmit] < 0:
		return Job{}, s.At(swfNames[swfSubmit], whole(swfSubmit), "seconds from 0")
	case processors < 1 || processors > maxGPUs || processors != math.Trunc(processors):
		return Job{}, s.At(swfNames[swfAskedProcessors], strconv.FormatFloat(processors, 'f', -1, 64), "a whole number from 1")
	}
	j.ID, j.Submit, j.Duration, j.Limit, j.Untagged = whole(swfJob), v[swfSubmit], v[swfRun], max(v[swfAskedTime], 0), true
	if s.gpus {
		j.GPUs = int(processors)
	} else {
		j.CPUs = int(processors)
	}
	if kb := v[swfAskedKB]; kb > 0 {
		j.MemMB = int64(min(math.Ceil(kb*processors/1024), maxMemMB))
	}
	if v[swfUser] >= 0 {
		j.User = s.texts.get("u" + whole(swfUser))
	}
	if v[swfGroup] >= 0 {
		j.Account = s.texts.get("g" + whole(swfGroup))
	}
	if v[swfWait] >= 0 {
		j.Start = j.Submit + v[swfWait]
		j.End, j.Ran = j.Start+j.Duration, j.Duration
	}
	return j, nil
}
