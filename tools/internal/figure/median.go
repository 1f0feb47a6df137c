package figure

import "slices"

// Median is the middle of values, or halfway between the two in the middle.
func Median[T ~int64 | ~float64](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
