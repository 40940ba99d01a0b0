package view

import (
	"cmp"
	"maps"
	"slices"
)

// groupOf is the group of a key; it begins as given.
func groupOf[K comparable, T any](all map[K]*T, key K, begin T) *T {
	if all[key] == nil {
		all[key] = &begin
	}
	return all[key]
}

// ranked are groups, those with the most first, else by name.
func ranked[T any](all map[string]*T, most func(x *T) float64) []T {
	list := make([]T, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		list = append(list, *all[name])
	}
	slices.SortStableFunc(list, func(a, b T) int { return cmp.Compare(most(&b), most(&a)) })
	return list
}
