package slurmplug

import "fmt"

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
