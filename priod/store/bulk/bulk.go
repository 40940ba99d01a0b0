// Package bulk runs a statement of SQLite's for many rows with one call. The driver makes a call
// from Go to C for each argument of each row, which takes longer than all that SQLite does.
package bulk

// int bulk_register(void);
import "C"

import (
	"context"
	"database/sql"
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"slices"

	_ "github.com/mattn/go-sqlite3" // defines what bulk.c calls
)

// From then on each connection that the driver opens has the function for_each_row.
func init() {
	if rc := C.bulk_register(); rc != 0 {
		panic(fmt.Sprint("sqlite3_auto_extension: ", rc)) // no memory
	}
}

// Rows are those for which a statement is to run: its arguments in each. The zero value has none.
type Rows struct {
	bytes []byte
	n     int
}

// Add adds a row: a pointer to the struct whose fields, int64, bool, float64 or string, are the
// statement's parameters in their order, as sqlc makes such structs; or to the only parameter.
func (r *Rows) Add(row any) error {
	r.n++
	v := reflect.ValueOf(row).Elem()
	if v.Kind() != reflect.Struct {
		return r.value(v)
	}
	for i := range v.NumField() {
		if err := r.value(v.Field(i)); err != nil {
			return err
		}
	}
	return nil
}

func (r *Rows) value(v reflect.Value) error {
	switch v.Kind() {
	case reflect.Int64:
		r.number('i', uint64(v.Int()))
	case reflect.Bool:
		n := uint64(0)
		if v.Bool() {
			n = 1
		}
		r.number('i', n)
	case reflect.Float64:
		r.number('f', math.Float64bits(v.Float()))
	case reflect.String:
		text := v.String()
		r.number('t', uint64(len(text)))
		r.bytes = append(r.bytes, text...)
	default:
		return fmt.Errorf("bulk: a value of type %s", v.Type())
	}
	return nil
}

// number appends a value's kind and its number, or its text's length, as bulk.c reads them.
func (r *Rows) number(kind byte, n uint64) {
	r.bytes = binary.NativeEndian.AppendUint64(append(r.bytes, kind), n)
}

// Reset forgets the rows and keeps their memory.
func (r *Rows) Reset() { r.bytes, r.n = r.bytes[:0], 0 }

// Size is how much memory, in bytes, the rows take.
func (r *Rows) Size() int { return len(r.bytes) }

// Execer is a database, a connection or a transaction of the driver's.
type Execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// few rows cost less one by one, by a statement that the driver keeps, than a statement that is prepared anew.
const few = 3

// values are those of all rows.
func (r *Rows) values() (all []any) {
	for at := r.bytes; len(at) > 0; {
		kind, n := at[0], binary.NativeEndian.Uint64(at[1:])
		at = at[9:]
		switch kind {
		case 'i':
			all = append(all, int64(n))
		case 'f':
			all = append(all, math.Float64frombits(n))
		default:
			all, at = append(all, string(at[:n])), at[n:]
		}
	}
	return all
}

// Run runs the statement for the rows, one after the other, up to one that fails. What the ones
// before it changed stays, unless the transaction is rolled back. The error is SQLite's own.
func (r *Rows) Run(ctx context.Context, tx Execer, statement string) error {
	if len(r.bytes) == 0 {
		return nil
	}
	if 0 < r.n && r.n <= few {
		values := r.values()
		for row := range slices.Chunk(values, len(values)/r.n) {
			if _, err := tx.ExecContext(ctx, statement, row...); err != nil {
				return err
			}
		}
		return nil
	}
	_, err := tx.ExecContext(ctx, "SELECT for_each_row(?, ?)", statement, r.bytes)
	return err
}
