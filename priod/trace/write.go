package trace

import (
	"bufio"
	"encoding/csv"
	"io"
	"slices"
)

// WriteCSV writes jobs in our own format: the columns that every job has and
// those that any of these jobs needs.
func WriteCSV(w io.Writer, jobs []Job) error {
	var used []*column
	for i := range columns {
		c := &columns[i]
		needed := slices.Contains(required, c.name)
		for k := 0; k < len(jobs) && !needed; k++ {
			needed = !c.unset(&jobs[k])
		}
		if needed {
			used = append(used, c)
		}
	}
	buffer := bufio.NewWriterSize(w, 1<<16)
	out := csv.NewWriter(buffer)
	row := make([]string, len(used))
	for i, c := range used {
		row[i] = c.name
	}
	if err := out.Write(row); err != nil {
		return err
	}
	var b []byte
	for k := range jobs {
		for i, c := range used {
			row[i] = ""
			if !c.unset(&jobs[k]) || c.spoken {
				b = c.append(b[:0], &jobs[k])
				row[i] = string(b)
			}
		}
		if err := out.Write(row); err != nil {
			return err
		}
	}
	out.Flush()
	if err := out.Error(); err != nil {
		return err
	}
	return buffer.Flush()
}
