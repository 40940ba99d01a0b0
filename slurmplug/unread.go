package slurmplug

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// A record with a field in a form that is not known costs itself and nothing else: it is
// returned with Unread set. Only where more than half of the records are like that is the
// read doubtful, and mostlyRead an error. unread says why a record cannot be read, "" of one
// that can.
func mostlyRead[T any](records []T, unread func(*T) string) error {
	n, first := 0, ""
	for i := range records {
		if why := unread(&records[i]); why != "" {
			if n++; first == "" {
				first = why
			}
		}
	}
	if 2*n > len(records) {
		return fmt.Errorf("%d of %d records cannot be read, the first because of %s", n, len(records), first)
	}
	return nil
}

// UnreadRow is a row of one of Slurm's tables that was left out, because a field is in a form that is not known.
type UnreadRow struct {
	Table string // what it stands in: "accounting", "sacctmgr show qos"
	Name  string // what it is about, as far as that can be read
	Why   string // with the text as it was
}

// table is what a reader of rows counts of them. Its rows that cannot be read cost themselves, as records do.
type table struct {
	name string
	rows int
	odd  []UnreadRow
}

// row counts a row, and leaves it out where there is an error.
func (t *table) row(name string, err error) {
	if t.rows++; err != nil {
		t.odd = append(t.odd, UnreadRow{t.name, string(clip([]byte(name))), err.Error()})
	}
}

// read is an error where more than half of the rows cannot be read.
func (t *table) read() error {
	if 2*len(t.odd) > t.rows {
		return doubtful(t.name, "%d of %d rows cannot be read, the first (%q) because of %s", len(t.odd), t.rows, t.odd[0].Name, t.odd[0].Why)
	}
	return nil
}

// rowsOf is query for a table whose rows may be left out.
func rowsOf[Text string | []byte, T any](ctx context.Context, c *Client, name string, parse func(Text, *table) (T, error), command string, args ...string) (none T, err error) {
	out, err := c.readLines(ctx, command, args...)
	if err != nil {
		return none, err
	}
	t := table{name: name}
	value, err := parse(Text(out), &t)
	c.leave(&t, err)
	return value, err
}

// mostUnread is how many rows that were left out are remembered, unreadFor for how long: a table is read again
// in parts, so that a row may not come again.
const mostUnread, unreadFor = 50, time.Hour

type unreadSince struct {
	UnreadRow
	at time.Time
}

// leave remembers the rows that a read has left out.
func (c *Client) leave(t *table, err error) {
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range t.odd[max(len(t.odd)-mostUnread, 0):] {
		c.unread = slices.DeleteFunc(c.unread, func(u unreadSince) bool { return u.UnreadRow == r })
		c.unread = append(c.unread, unreadSince{r, time.Now()})
	}
	c.unread = c.unread[max(len(c.unread)-mostUnread, 0):]
}

// Unread are the rows that the reads of the last hour have left out of tables whose records do not say so
// themselves, and of accounting; the newest last, and so many at most.
func (c *Client) Unread() (rows []UnreadRow) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unread = slices.DeleteFunc(c.unread, func(u unreadSince) bool { return time.Since(u.at) > unreadFor })
	for i := range c.unread {
		rows = append(rows, c.unread[i].UnreadRow)
	}
	return rows
}

// Readable are the nodes without those that cannot be read.
func Readable(nodes []Node) []Node {
	readable := nodes[:0:0]
	for i := range nodes {
		if nodes[i].Unread == "" {
			readable = append(readable, nodes[i])
		}
	}
	return readable
}
