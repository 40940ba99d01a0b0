// Package curve is the arithmetic of profiling: which CPU count to measure
// next, how fast a program is by its own reports, what the measurements say as
// a curve, and how memory bends it. It is pure: figures in, figures out.
//
// It follows the optimistic profiling of Synergy (Mohan et al., OSDI'22): only
// the CPU axis is measured; with a cache that holds a fixed part of the data
// set, speed against memory is a formula.
package curve
