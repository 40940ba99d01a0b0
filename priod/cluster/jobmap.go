package cluster

import (
	"iter"
	"math/bits"
	"slices"

	"slurmprio/slurmplug"
)

// JobMap is a map by job id, made for the ids of a queue: they lie close together, and most are
// asked for in rising order. It keeps them in pages of 64 neighbours, so that to look one up
// costs a fifth of what it costs in a Go map of 100,000, and half where ids jump. The zero JobMap is empty and ready; a
// copy of one that holds something shares its pages. As in a Go map, entries may be deleted
// while All runs, and nothing else may be written beside a reader.
type JobMap[T any] struct {
	plain []*pages[T]          // jobs that are no array task, by ID / segmentSize
	tasks map[uint32]*pages[T] // by array; of its tasks, by Task
	n     int
}

// pageSize is how many ids a page has, and segmentSize how many ids at most share a list of pages:
// ids begin at 1 again after some tens of millions, and the gap between old and new ones costs
// little memory then.
const pageSize, segmentSize = 64, 1 << 16

// ByID are jobs by their ids.
func ByID(jobs []Job) (m JobMap[*Job]) {
	for i := range jobs {
		m.Set(jobs[i].ID, &jobs[i])
	}
	return m
}

// pages are those that hold anything, and the gaps between them: at[i] has the keys from
// (first+i)*pageSize on.
type pages[T any] struct {
	first uint32
	at    []*page[T]
	held  int // pages that are there
}

type page[T any] struct {
	has    uint64 // which values are there
	values [pageSize]T
}

// of returns where the value of an id stands, its page being nil when there is none.
func (m *JobMap[T]) of(id JobID) (p *page[T], slot uint32) {
	in, key := m.pagesOf(id)
	if in == nil {
		return nil, 0
	}
	n := key/pageSize - in.first // wraps around below the first page
	if n >= uint32(len(in.at)) {
		return nil, 0
	}
	p, slot = in.at[n], key%pageSize
	if p == nil || p.has&(1<<slot) == 0 {
		return nil, 0
	}
	return p, slot
}

// pagesOf are those that an id is in, nil when there are none, and its key there.
func (m *JobMap[T]) pagesOf(id JobID) (in *pages[T], key uint32) {
	if id.Task != slurmplug.NoTask {
		return m.tasks[id.ID], uint32(id.Task)
	}
	if at := id.ID / segmentSize; at < uint32(len(m.plain)) {
		in = m.plain[at]
	}
	return in, id.ID
}

// addPages makes the pages that an id is in.
func (m *JobMap[T]) addPages(id JobID) *pages[T] {
	in := &pages[T]{}
	if id.Task != slurmplug.NoTask {
		if m.tasks == nil {
			m.tasks = map[uint32]*pages[T]{}
		}
		m.tasks[id.ID] = in
		return in
	}
	at := int(id.ID / segmentSize)
	if more := at + 1 - len(m.plain); more > 0 {
		m.plain = append(m.plain, make([]*pages[T], more)...)
	}
	m.plain[at] = in
	return in
}

// dropPages drops the pages that an id was in.
func (m *JobMap[T]) dropPages(id JobID) {
	if id.Task != slurmplug.NoTask {
		delete(m.tasks, id.ID)
		return
	}
	m.plain[id.ID/segmentSize] = nil
}

// Get returns the value of an id; the zero value when there is none.
func (m *JobMap[T]) Get(id JobID) (v T) {
	if p, slot := m.of(id); p != nil {
		return p.values[slot]
	}
	return v
}

// Find returns the value of an id, and whether there is one.
func (m *JobMap[T]) Find(id JobID) (v T, known bool) {
	if p, slot := m.of(id); p != nil {
		return p.values[slot], true
	}
	return v, false
}

// Len is how many ids have a value.
func (m *JobMap[T]) Len() int { return m.n }

// Set gives an id a value.
func (m *JobMap[T]) Set(id JobID, v T) {
	in, key := m.pagesOf(id)
	if in == nil {
		in = m.addPages(id)
	}
	p, slot := in.reach(key/pageSize), key%pageSize
	if p.has&(1<<slot) == 0 {
		p.has |= 1 << slot
		m.n++
	}
	p.values[slot] = v
}

// reach returns a page, a new one if need be.
func (in *pages[T]) reach(number uint32) *page[T] {
	switch {
	case in.held == 0:
		in.first, in.at = number, in.at[:0]
	case number < in.first:
		in.at = slices.Insert(in.at, 0, make([]*page[T], in.first-number)...)
		in.first = number
	}
	if n := int(number-in.first) + 1 - len(in.at); n > 0 {
		in.trim() // ids rise for ever
		in.at = append(in.at, make([]*page[T], int(number-in.first)+1-len(in.at))...)
	}
	p := in.at[number-in.first]
	if p == nil {
		p = &page[T]{}
		in.at[number-in.first] = p
		in.held++
	}
	return p
}

// trim drops the empty places before the first page that is there.
func (in *pages[T]) trim() {
	gap := 0
	for gap < len(in.at)-1 && in.at[gap] == nil {
		gap++
	}
	in.first, in.at = in.first+uint32(gap), in.at[gap:]
}

// Delete takes an id's value out.
func (m *JobMap[T]) Delete(id JobID) {
	p, slot := m.of(id)
	if p == nil {
		return
	}
	var none T
	p.values[slot] = none
	p.has &^= 1 << slot
	m.n--
	if p.has != 0 {
		return
	}
	in, key := m.pagesOf(id)
	in.at[key/pageSize-in.first] = nil
	if in.held--; in.held == 0 {
		m.dropPages(id)
	}
}

// All are the ids and their values: jobs by their ids, and array tasks after them, the arrays in
// no order.
func (m *JobMap[T]) All() iter.Seq2[JobID, T] {
	return func(yield func(JobID, T) bool) {
		for _, in := range m.plain {
			if in != nil && !in.each(func(key uint32, v T) bool { return yield(slurmplug.Plain(key), v) }) {
				return
			}
		}
		for array, in := range m.tasks {
			if !in.each(func(key uint32, v T) bool { return yield(JobID{ID: array, Task: int32(key)}, v) }) {
				return
			}
		}
	}
}

// each calls yield with each key and its value until that returns false, and reports whether it
// never did.
func (in *pages[T]) each(yield func(uint32, T) bool) bool {
	first := in.first
	for i, p := range in.at {
		if p == nil {
			continue
		}
		for left := p.has; left != 0; left &= left - 1 {
			slot := uint32(bits.TrailingZeros64(left))
			if p.has&(1<<slot) != 0 && !yield((first+uint32(i))*pageSize+slot, p.values[slot]) {
				return false
			}
		}
	}
	return true
}

// DeleteFunc takes out the values for which gone tells so.
func (m *JobMap[T]) DeleteFunc(gone func(JobID, T) bool) {
	for id, v := range m.All() {
		if gone(id, v) {
			m.Delete(id)
		}
	}
}
