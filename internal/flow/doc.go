// Package flow bounds what clients take of a server at once: requests and streams in flight, and the
// memory of request bodies. Each bound has a part that one user can take, so that a single user
// cannot use up what all need.
//
// A [Level] is for servers whose administrators say more than that: it shares seats among flows, so
// that a flow with few requests does not wait for one with many. [Allocate] says how many seats each
// of several levels has.
//
// It only counts. The links of the request chain decide what is counted and what a refusal looks
// like; read chain.go in the root next.
package flow
