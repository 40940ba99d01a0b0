package trace

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"slurmprio/priod/workload"
)

// Format is how a trace is written.
type Format string

// Formats. CSV is our own; docs/reference/traces.md describes all.
const (
	CSV    Format = "csv"
	Sacct  Format = "sacct"
	SWF    Format = "swf"     // the Standard Workload Format; its processors are CPUs
	SWFGPU Format = "swf-gpu" // the same; its processors are GPUs
)

// Formats are all formats.
var Formats = []Format{CSV, Sacct, SWF, SWFGPU}

// Options say how to read a trace.
type Options struct {
	Format  Format // "" is CSV
	SkipBad bool   // leave bad rows out instead of stopping at the first one
	Sort    bool   // put jobs in order of submission, which takes all of them into memory

	// Workloads turn a run that accounting saw into steps. May be nil.
	Workloads *workload.Table
	// CPUs are those that users asked for, by job or array of accounting, where priod wrote another number.
	CPUs map[string]int
	// Lines are the commands by which jobs of accounting were submitted, by raw id: a run has one partition of their lists.
	Lines map[uint32]string
	// Scripts are what ListsIn finds in batch scripts, by job or array.
	Scripts map[uint32][]string
	// Source, if set, reads a format of the caller's in place of Format.
	Source func(name string, text io.Reader) (Source, error)
	// GPUsOnly leaves out of accounting the jobs without GPUs: the engine knows GPUs alone.
	GPUsOnly bool
	// TEQOS are the QOS whose untagged jobs are trial-and-error.
	TEQOS []string
	// BEQOS are those whose untagged jobs have agreed to what BE jobs agree to.
	BEQOS []string
}

// Stats say what became of a trace's rows.
type Stats struct {
	Jobs     int            `json:"jobs"`
	Unlisted int            `json:"-"`       // jobs with GPUs in the partition in which they ran: which ones they named is not known
	Bad      int            `json:"bad"`     // rows that are wrong, with SkipBad
	Left     []LeftOut      `json:"left"`    // the first of these, MostNamed at most
	Skipped  map[string]int `json:"skipped"` // rows that are right and no job to replay, by why

	Origin time.Time `json:"-"` // second 0 of a trace of accounting; zero: it does not say
}

// LeftOut is a job that is not replayed.
type LeftOut struct {
	Job      string  `json:"job"`       // "" where its row does not even say that
	Why      string  `json:"why"`       // for people
	GPUHours float64 `json:"gpu_hours"` // that it held, as far as accounting tells
}

// MostNamed is how many jobs that are left out are named.
const MostNamed = 10

// skip counts a row that is no job to replay.
func (s *Stats) skip(why string) {
	if s.Skipped == nil {
		s.Skipped = map[string]int{}
	}
	s.Skipped[why]++
}

// RowError is what is wrong with one row.
type RowError struct {
	Name   string // of the trace
	Line   int    // from 1
	Column int    // from 1, in bytes; 0 when it is the row
	Key    string // the column's name, "" when it is the row
	Value  string
	Want   string

	Job      string  // whose row it is, where that can be read
	GPUHours float64 // in the row, where these can be read
}

func (e *RowError) Error() string {
	if e.Key == "" {
		return fmt.Sprintf("%s:%d: %s", e.Name, e.Line, e.Want)
	}
	return fmt.Sprintf("%s:%d:%d: %s = %.80q: want %s", e.Name, e.Line, e.Column, e.Key, e.Value, e.Want)
}

// Source is one format: it gives jobs in the order of the file until io.EOF. An
// error that is a *RowError leaves it fit to continue.
type Source interface {
	Next() (Job, error)
	// At is what is wrong with a value of the row that was read last; key is our name of its column.
	At(key, value, want string) *RowError
}

// Reader gives the jobs of a trace one by one, in order of submission.
type Reader struct {
	name   string
	opts   Options
	src    Source
	stats  Stats
	last   float64 // submission of the job before
	ids    idSet
	sorted []Job // what is left to give, with Options.Sort
	loaded bool
	close  func() error
}

// Open reads the trace in a file, "-" for standard input, gzip or plain.
func Open(path string, opts Options) (*Reader, error) {
	if path == "-" {
		return NewReader("standard input", os.Stdin, opts)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("trace: %w", err)
	}
	r, err := NewReader(path, f, opts)
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	r.close = f.Close
	return r, nil
}

// NewReader reads a trace; name stands in errors.
func NewReader(name string, in io.Reader, opts Options) (*Reader, error) {
	text := bufio.NewReaderSize(in, 1<<16)
	if magic, _ := text.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		unzipped, err := gzip.NewReader(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		text = bufio.NewReaderSize(unzipped, 1<<16)
	}
	if mark, _ := text.Peek(3); string(mark) == "\ufeff" {
		_, _ = text.Discard(3)
	}
	r := &Reader{name: name, opts: opts, ids: idSet{map[uint64]struct{}{}, map[string]struct{}{}}}
	var err error
	switch {
	case opts.Source != nil:
		r.src, err = opts.Source(name, text)
	case opts.Format == CSV, opts.Format == "":
		r.src, err = newCSVSource(name, text)
	case opts.Format == Sacct:
		r.src, err = newSacctSource(name, text, opts, &r.stats)
	case opts.Format == SWF, opts.Format == SWFGPU:
		r.src = newSWFSource(name, text, opts.Format == SWFGPU, &r.stats)
	default:
		err = fmt.Errorf("format %.40q: want one of %q", opts.Format, Formats)
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Close closes the file that Open opened.
func (r *Reader) Close() error {
	if r.close == nil {
		return nil
	}
	return r.close()
}

// Stats are complete when Next has returned io.EOF.
func (r *Reader) Stats() Stats { return r.stats }

// Next returns the next job, io.EOF behind the last one. A trace without jobs
// is an error.
func (r *Reader) Next() (Job, error) {
	if !r.opts.Sort {
		return r.read()
	}
	if !r.loaded {
		for j, err := range each(r.read) {
			if err != nil {
				return Job{}, err
			}
			r.sorted = append(r.sorted, j)
		}
		r.loaded = true
		slices.SortStableFunc(r.sorted, func(a, b Job) int { return cmp.Compare(a.Submit, b.Submit) })
	}
	if len(r.sorted) == 0 {
		return Job{}, io.EOF
	}
	j := r.sorted[0]
	r.sorted = r.sorted[1:]
	return j, nil
}

// read gives the next good job in the order of the file.
func (r *Reader) read() (Job, error) {
	var wrong *RowError
	for {
		j, err := r.src.Next()
		if err == nil && !r.ids.add(j.ID) {
			err = r.src.At("job_id", j.ID, "an id that no job above has")
		}
		switch {
		case err == nil && j.Submit < r.last && !r.opts.Sort:
			return Job{}, fmt.Errorf("%w (sort the trace by submission)",
				r.src.At("submit_s", string(appendNumber(nil, j.Submit)), "no less than "+string(appendNumber(nil, r.last))+" of the job above"))
		case err == nil:
			r.last = j.Submit
			r.stats.Jobs++
			return j, nil
		case r.opts.SkipBad && errors.As(err, &wrong):
			r.stats.Bad++
			if len(r.stats.Left) < MostNamed {
				r.stats.Left = append(r.stats.Left, LeftOut{Job: wrong.Job, Why: wrong.Error(), GPUHours: wrong.GPUHours})
			}
		case errors.Is(err, io.EOF) && r.stats.Jobs == 0:
			return Job{}, r.empty()
		default:
			return Job{}, err
		}
	}
}

// empty is the error for a trace without jobs.
func (r *Reader) empty() error {
	why := ""
	if r.stats.Bad > 0 {
		why = fmt.Sprintf("; %d bad rows were skipped", r.stats.Bad)
	}
	for _, k := range slices.Sorted(maps.Keys(r.stats.Skipped)) {
		why += fmt.Sprintf("; %d rows skipped: %s", r.stats.Skipped[k], strings.ReplaceAll(k, "_", " "))
	}
	if r.stats.Skipped[skipNoGPUs] > 0 {
		why += " (does AccountingStorageTRES name gres/gpu?)"
	}
	return fmt.Errorf("%s: no jobs in it%s", r.name, why)
}

// All gives the jobs; an error is the last thing that it gives.
func (r *Reader) All() iter.Seq2[Job, error] { return each(r.Next) }

// each gives what next returns until io.EOF or another error, which is the last.
func each(next func() (Job, error)) iter.Seq2[Job, error] {
	return func(yield func(Job, error) bool) {
		for {
			j, err := next()
			if errors.Is(err, io.EOF) || !yield(j, err) || err != nil {
				return
			}
		}
	}
}

// idSet remembers ids: most are numbers, which need no text kept.
type idSet struct {
	numbers map[uint64]struct{}
	words   map[string]struct{}
}

// add reports whether the id is new.
func (s *idSet) add(id string) bool {
	if n, ok := canonical(id); ok {
		before := len(s.numbers)
		s.numbers[n] = struct{}{}
		return len(s.numbers) > before
	}
	before := len(s.words)
	s.words[id] = struct{}{}
	return len(s.words) > before
}

// canonical reads a number in the one way in which it can be written.
func canonical(id string) (n uint64, ok bool) {
	if id == "" || len(id) > 18 || id[0] == '0' && len(id) > 1 {
		return 0, false
	}
	for i := range len(id) {
		if id[i] < '0' || id[i] > '9' {
			return 0, false
		}
		n = n*10 + uint64(id[i]-'0')
	}
	return n, true
}

// interner keeps one string for equal ones: a million jobs have few users.
type interner map[string]string

func (in interner) get(s string) string {
	if kept, ok := in[s]; ok {
		return kept
	}
	s = strings.Clone(s)
	in[s] = s
	return s
}
