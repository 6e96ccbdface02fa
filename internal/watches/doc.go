// Package watches runs the watches of a store whose commits are in one process. A watch reads the
// store's log in its reader's goroutine. It holds no lock while the reader's code runs. When it has
// read all of the log it parks: it sleeps until a commit has a matching change, or somebody asks for
// progress. Three positions make it exact:
//
//	told     what the reader knows: the revision of the last batch or progress
//	Reached  where the walk is: all matches up to here have been yielded
//	current  where the store is
//
// told <= Reached <= current. A parked watch needs no position of its own: it has reached current,
// however far that moves, until a change matches. So commits elsewhere cost it nothing, and
// compaction cannot overtake it. It only has to report progress to its reader once somebody has
// asked for the revision (asked > told).
package watches
