// Package linear checks whether a history of concurrent calls is linearizable: whether one copy of
// the data that takes one call at a time could have given the same results.
//
// It uses the algorithm of Wing and Gong with Lowe's memory of visited states, so the result is
// exact. It is for tests.
package linear
