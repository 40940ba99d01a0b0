package slurmplug

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"iter"
)

// separators keep fields and records of one read apart. Names and comments may
// hold any byte, so both are new for each read and cannot be guessed: a record
// can only be forged with end known, and a guessed field spoils a read that
// is then refused.
type separators struct{ field, end string }

func newSeparators() separators {
	var b [21]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	s := base64.RawURLEncoding.EncodeToString(b[:])
	return separators{field: "\x1f" + s[:6], end: "\x1e" + s[6:]}
}

// each hands on the records of out, behind so many others, one by one: each ends with s.end and a newline.
func (s separators) each(out []byte, before int, do func(record []byte) error) error {
	end := s.end
	for n := before + 1; len(out) > 0; n++ {
		at := index(out, end)
		if at < 0 || at+len(end) >= len(out) || out[at+len(end)] != '\n' {
			return fmt.Errorf("record %d is cut off: %q", n, clip(out))
		}
		if err := do(out[:at]); err != nil {
			return err
		}
		out = out[at+len(end)+1:]
	}
	return nil
}

// parts cuts out into at most so many parts of whole records, about as long as each other.
func (s separators) parts(out []byte, most int) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for ; most > 1; most-- {
			from := len(out) / most
			at := index(out[from:], s.end+"\n")
			if at < 0 {
				break
			}
			cut := from + at + len(s.end) + 1
			if !yield(out[:cut]) {
				return
			}
			out = out[cut:]
		}
		if len(out) > 0 {
			yield(out)
		}
	}
}

// rows hands on the rows of sacct --parsable, cut into fields: each field has s.end behind
// it, each row a newline. Slurm has no mark of its own for the end of a row, but a comment
// that breaks a line cannot forge s.end.
func (s separators) rows(out []byte, fields [][]byte, do func() error) error {
	end := []byte(s.end)
	for n := 1; len(out) > 0; n++ {
		for i := range fields {
			at := bytes.Index(out, end)
			if at < 0 {
				return doubtful("sacct", "record %d is cut off behind field %d", n, i)
			}
			fields[i], out = out[:at], out[at+len(end):]
		}
		if len(out) == 0 || out[0] != '\n' {
			return doubtful("sacct", "record %d has more than %d fields, or no end", n, len(fields))
		}
		out = out[1:]
		if err := do(); err != nil {
			return doubtful("sacct", "record %d (%q): %w", n, clip(fields[0]), err)
		}
	}
	return nil
}

// cut splits one record into exactly len(fields) fields.
func (s separators) cut(record []byte, fields [][]byte) error {
	sep, rest := s.field, record
	for i := range fields {
		at := index(rest, sep)
		if last := i == len(fields)-1; last != (at < 0) {
			n := bytes.Count(record, []byte(sep)) + 1
			return fmt.Errorf("%d fields, want %d, in %q", n, len(fields), clip(record))
		}
		if at < 0 {
			fields[i] = rest
			break
		}
		fields[i], rest = rest[:at], rest[at+len(sep):]
	}
	return nil
}

// index is where a separator first is, as bytes.Index has it: quicker, because nearly no
// field holds a separator's first byte.
func index(text []byte, separator string) int {
	for at := 0; ; at++ {
		next := bytes.IndexByte(text[at:], separator[0])
		if next < 0 {
			return -1
		}
		if at += next; len(text)-at >= len(separator) && string(text[at:at+len(separator)]) == separator {
			return at
		}
	}
}

// clip is the beginning of a record, for an error message.
func clip(b []byte) []byte { return b[:min(len(b), 80)] }
