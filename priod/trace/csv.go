package trace

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Rows reads a text of rows with separators and knows where it stands.
type Rows struct {
	Columns []string // their names, in the order of the file
	Row     []string // the row that was read last

	name  string
	in    *csv.Reader
	texts interner
}

// NewRows reads a text; name stands in errors.
func NewRows(name string, text io.Reader, separator rune) Rows {
	in := csv.NewReader(text)
	in.Comma, in.ReuseRecord, in.FieldsPerRecord = separator, true, -1
	in.LazyQuotes = separator == '\t' // Gavel writes commands as they are
	return Rows{name: name, in: in, texts: interner{}}
}

// Read takes the next row, as many fields as there are columns.
func (r *Rows) Read() error {
	var err error
	r.Row, err = r.in.Read()
	switch {
	case errors.Is(err, io.EOF):
		return io.EOF
	case err != nil:
		var syntax *csv.ParseError
		if errors.As(err, &syntax) {
			return &RowError{Name: r.name, Line: syntax.Line, Want: syntax.Err.Error()}
		}
		return fmt.Errorf("%s: %w", r.name, err)
	case r.Columns != nil && len(r.Row) != len(r.Columns):
		return r.Bad(fmt.Sprintf("%d columns, want %d: %s", len(r.Row), len(r.Columns), strings.Join(r.Columns, ", ")))
	}
	return nil
}

// Bad is what is wrong with the row as a whole.
func (r *Rows) Bad(want string) *RowError {
	line, _ := r.in.FieldPos(0)
	return &RowError{Name: r.name, Line: line, Want: want}
}

// At is what is wrong with one value of the row.
func (r *Rows) At(key, value, want string) *RowError {
	field := max(slices.Index(r.Columns, key), 0)
	line, column := r.in.FieldPos(field)
	return &RowError{Name: r.name, Line: line, Column: column, Key: key, Value: value, Want: want}
}

// set gives a job the value of one of our columns from the field of a row.
func (r *Rows) set(j *Job, c *column, field int) error {
	value := r.Row[field]
	switch {
	case c.name == "job_id":
		value = strings.Clone(value) // the row goes, the id stays
	case c.text:
		value = r.texts.get(value)
	}
	if want := c.set(j, value); want != "" {
		return r.At(r.Columns[field], value, want)
	}
	return nil
}

// Set gives a job the value of one of our columns from the field of a row.
func (r *Rows) Set(j *Job, ours string, field int) error {
	return r.set(j, &columns[columnIndex(ours)], field)
}

// csvSource is our own format: a header, then jobs.
type csvSource struct {
	Rows
	fields []*column // of each field of a row
	job    Job       // the one that is being read; kept here, it costs no allocation
}

// required must stand in every row; a job's run time is checked apart.
var required = []string{"job_id", "submit_s", "gpus"}

func newCSVSource(name string, text io.Reader) (*csvSource, error) {
	s := &csvSource{Rows: NewRows(name, text, ',')}
	err := s.Read()
	if errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: empty: want a header and jobs", name)
	}
	if err != nil {
		return nil, err
	}
	s.Columns = make([]string, len(s.Row))
	for i, field := range s.Row {
		at := columnIndex(field)
		switch {
		case at < 0:
			return nil, fmt.Errorf("%s:1: unknown column %.80q: want some of %s", name, field, strings.Join(columnNames(), ", "))
		case slices.Contains(s.Columns[:i], field):
			return nil, fmt.Errorf("%s:1: column %s stands twice", name, field)
		}
		s.Columns[i] = columns[at].name
		s.fields = append(s.fields, &columns[at])
	}
	for _, c := range required {
		if !slices.Contains(s.Columns, c) {
			return nil, fmt.Errorf("%s:1: no column %s", name, c)
		}
	}
	if !slices.Contains(s.Columns, "duration_s") && !(slices.Contains(s.Columns, "workload") && slices.Contains(s.Columns, "steps")) {
		return nil, fmt.Errorf("%s:1: neither a column duration_s nor columns workload and steps", name)
	}
	return s, nil
}

// Next reads the next row.
func (s *csvSource) Next() (Job, error) {
	if err := s.Read(); err != nil {
		return Job{}, err
	}
	s.job = NewJob()
	j := &s.job
	for i, c := range s.fields {
		if s.Row[i] == "" && !slices.Contains(required, c.name) {
			continue
		}
		if err := s.set(j, c, i); err != nil {
			return Job{}, err
		}
	}
	switch {
	case j.ID == "":
		return Job{}, s.At("job_id", j.ID, "an id")
	case j.GPUs == 0 && j.GPUType != "":
		return Job{}, s.At("gpu_type", j.GPUType, "nothing: the job has no GPUs")
	case j.GPUs == 0 && j.Steps > 0:
		return Job{}, s.At("steps", string(appendNumber(nil, j.Steps)), "duration_s instead: how long a step takes is known on GPUs alone")
	case j.Duration > 0 && j.Steps > 0:
		return Job{}, s.At("steps", string(appendNumber(nil, j.Steps)), "either duration_s, or workload and steps")
	case j.Duration == 0 && j.Steps > 0 && j.Workload == "":
		return Job{}, s.At("workload", j.Workload, "a workload, which says how long a step takes")
	case j.Duration == 0 && j.Steps == 0 && slices.Contains(s.Columns, "duration_s"):
		return Job{}, s.At("duration_s", "0", "seconds above 0, or workload and steps")
	case j.Duration == 0 && j.Steps == 0:
		return Job{}, s.At("steps", "0", "steps above 0")
	}
	return *j, s.happened(j)
}

// happened checks what the row says of what really became of the job.
func (s *csvSource) happened(j *Job) error {
	switch {
	case j.End == 0 && (j.Start != 0 || j.Ran != 0):
		return s.Bad("start_s or ran_s without end_s")
	case j.End == 0:
		return nil
	case j.Start < j.Submit:
		return s.At("start_s", string(appendNumber(nil, j.Start)), "a time not before submit_s")
	case j.End <= j.Start:
		return s.At("end_s", string(appendNumber(nil, j.End)), "a time after start_s")
	case j.Ran > j.End-j.Start:
		return s.At("ran_s", string(appendNumber(nil, j.Ran)), "no more than end_s - start_s")
	case j.Ran == 0:
		j.Ran = j.End - j.Start
	}
	return nil
}
