package kindwright

// requestStack is how many bytes of stack most requests need at most.
const requestStack = 12 << 10

// reserveStack makes the stack of the goroutine large enough for a request. HTTP/2 has a goroutine for
// each request, whose stack begins small and is copied each time it doubles. That costs the more the
// more calls are open, so it is done once, while they are few.
//
//go:noinline
func reserveStack(i int) byte {
	var room [requestStack]byte
	return room[i]
}
