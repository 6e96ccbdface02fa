package effort

// Of returns n, or a tenth of it, but at least 1, under the race detector.
func Of(n int) int {
	if Raced {
		return max(1, n/10)
	}
	return n
}
