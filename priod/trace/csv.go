package trace

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// rows reads a text of rows with separators and knows where it stands.
type rows struct {
	name    string
	in      *csv.Reader
	columns []string // their names, in the order of the file
	row     []string
	texts   interner
}

func newRows(name string, text io.Reader, separator rune) rows {
	in := csv.NewReader(text)
	in.Comma, in.ReuseRecord, in.FieldsPerRecord = separator, true, -1
	in.LazyQuotes = separator == '\t' // Gavel writes commands as they are
	return rows{name: name, in: in, texts: interner{}}
}

// read takes the next row, as many fields as there are columns.
func (r *rows) read() error {
	var err error
	r.row, err = r.in.Read()
	switch {
	case errors.Is(err, io.EOF):
		return io.EOF
	case err != nil:
		var syntax *csv.ParseError
		if errors.As(err, &syntax) {
			return &RowError{Name: r.name, Line: syntax.Line, Want: syntax.Err.Error()}
		}
		return fmt.Errorf("%s: %w", r.name, err)
	case r.columns != nil && len(r.row) != len(r.columns):
		return r.bad(fmt.Sprintf("%d columns, want %d: %s", len(r.row), len(r.columns), strings.Join(r.columns, ", ")))
	}
	return nil
}

// bad is what is wrong with the row as a whole.
func (r *rows) bad(want string) *RowError {
	line, _ := r.in.FieldPos(0)
	return &RowError{Name: r.name, Line: line, Want: want}
}

// at is what is wrong with one value of the row.
func (r *rows) at(key, value, want string) *RowError {
	field := max(slices.Index(r.columns, key), 0)
	line, column := r.in.FieldPos(field)
	return &RowError{Name: r.name, Line: line, Column: column, Key: key, Value: value, Want: want}
}

// set gives a job the value of one of our columns from the field of a row.
func (r *rows) set(j *Job, c *column, field int) error {
	value := r.row[field]
	switch {
	case c.name == "job_id":
		value = strings.Clone(value) // the row goes, the id stays
	case c.text:
		value = r.texts.get(value)
	}
	if want := c.set(j, value); want != "" {
		return r.at(r.columns[field], value, want)
	}
	return nil
}

// csvSource is our own format: a header, then jobs.
type csvSource struct {
	rows
	fields []*column // of each field of a row
	job    Job       // the one that is being read; kept here, it costs no allocation
}

// required must stand in every row; a job's run time is checked apart.
var required = []string{"job_id", "submit_s", "gpus"}

func newCSVSource(name string, text io.Reader) (*csvSource, error) {
	s := &csvSource{rows: newRows(name, text, ',')}
	err := s.read()
	if errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: empty: want a header and jobs", name)
	}
	if err != nil {
		return nil, err
	}
	s.columns = make([]string, len(s.row))
	for i, field := range s.row {
		at := columnIndex(field)
		switch {
		case at < 0:
			return nil, fmt.Errorf("%s:1: unknown column %.80q: want some of %s", name, field, strings.Join(columnNames(), ", "))
		case slices.Contains(s.columns[:i], field):
			return nil, fmt.Errorf("%s:1: column %s stands twice", name, field)
		}
		s.columns[i] = columns[at].name
		s.fields = append(s.fields, &columns[at])
	}
	for _, c := range required {
		if !slices.Contains(s.columns, c) {
			return nil, fmt.Errorf("%s:1: no column %s", name, c)
		}
	}
	if !slices.Contains(s.columns, "duration_s") && !(slices.Contains(s.columns, "workload") && slices.Contains(s.columns, "steps")) {
		return nil, fmt.Errorf("%s:1: neither a column duration_s nor columns workload and steps", name)
	}
	return s, nil
}

func (s *csvSource) next() (Job, error) {
	if err := s.read(); err != nil {
		return Job{}, err
	}
	s.job = newJob()
	j := &s.job
	for i, c := range s.fields {
		if s.row[i] == "" && !slices.Contains(required, c.name) {
			continue
		}
		if err := s.set(j, c, i); err != nil {
			return Job{}, err
		}
	}
	switch {
	case j.ID == "":
		return Job{}, s.at("job_id", j.ID, "an id")
	case j.GPUs == 0 && j.GPUType != "":
		return Job{}, s.at("gpu_type", j.GPUType, "nothing: the job has no GPUs")
	case j.GPUs == 0 && j.Steps > 0:
		return Job{}, s.at("steps", string(appendNumber(nil, j.Steps)), "duration_s instead: how long a step takes is known on GPUs alone")
	case j.Duration > 0 && j.Steps > 0:
		return Job{}, s.at("steps", string(appendNumber(nil, j.Steps)), "either duration_s, or workload and steps")
	case j.Duration == 0 && j.Steps > 0 && j.Workload == "":
		return Job{}, s.at("workload", j.Workload, "a workload, which says how long a step takes")
	case j.Duration == 0 && j.Steps == 0 && slices.Contains(s.columns, "duration_s"):
		return Job{}, s.at("duration_s", "0", "seconds above 0, or workload and steps")
	case j.Duration == 0 && j.Steps == 0:
		return Job{}, s.at("steps", "0", "steps above 0")
	}
	return *j, s.happened(j)
}

// happened checks what the row says of what really became of the job.
func (s *csvSource) happened(j *Job) error {
	switch {
	case j.End == 0 && (j.Start != 0 || j.Ran != 0):
		return s.bad("start_s or ran_s without end_s")
	case j.End == 0:
		return nil
	case j.Start < j.Submit:
		return s.at("start_s", string(appendNumber(nil, j.Start)), "a time not before submit_s")
	case j.End <= j.Start:
		return s.at("end_s", string(appendNumber(nil, j.End)), "a time after start_s")
	case j.Ran > j.End-j.Start:
		return s.at("ran_s", string(appendNumber(nil, j.Ran)), "no more than end_s - start_s")
	case j.Ran == 0:
		j.Ran = j.End - j.Start
	}
	return nil
}

// wantGPUs is what a job of the papers' traces asks for.
const wantGPUs = "a whole number from 1"

// synergySource is Synergy's format: five columns and no header.
type synergySource struct{ rows }

var synergyColumns = []string{"job_id", "workload", "submit_s", "steps", "gpus"}

func newSynergySource(name string, text io.Reader) *synergySource {
	s := &synergySource{newRows(name, text, ',')}
	s.columns = synergyColumns
	return s
}

func (s *synergySource) next() (Job, error) {
	if err := s.read(); err != nil {
		return Job{}, err
	}
	j := newJob()
	for i, name := range synergyColumns {
		if err := s.set(&j, &columns[columnIndex(name)], i); err != nil {
			return Job{}, err
		}
	}
	switch {
	case j.ID == "":
		return Job{}, s.at("job_id", "", "an id")
	case j.GPUs == 0:
		return Job{}, s.at("gpus", "0", wantGPUs)
	case j.Workload == "":
		return Job{}, s.at("workload", "", "a workload")
	case j.Steps == 0:
		return Job{}, s.at("steps", s.row[3], "steps above 0")
	}
	return j, nil
}
