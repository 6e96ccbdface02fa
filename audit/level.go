package audit

import "slices"

// Level says how much of a request is recorded.
// Source: AUD-30.
type Level string

// The levels, each of which records more than the one before.
const (
	LevelNone            Level = "None"            // no record
	LevelMetadata        Level = "Metadata"        // who asked for what, and the outcome
	LevelRequest         Level = "Request"         // and the body of the request
	LevelRequestResponse Level = "RequestResponse" // and the body of the answer
)

var levels = [...]Level{LevelNone, LevelMetadata, LevelRequest, LevelRequestResponse}

// Keeps reports whether the level records at least as much as another. Unknown levels record
// nothing.
func (l Level) Keeps(other Level) bool {
	return slices.Index(levels[:], l) >= slices.Index(levels[:], other)
}

// Stage is a moment in the life of a request.
// Source: AUD-30.
type Stage string

// The stages.
const (
	StageRequestReceived  Stage = "RequestReceived"  // the sender is known and the handler has not begun
	StageResponseStarted  Stage = "ResponseStarted"  // the answer to a watch or a connection begins
	StageResponseComplete Stage = "ResponseComplete" // the request has ended
	StagePanic            Stage = "Panic"            // the handler panicked
)

var stages = [...]Stage{StageRequestReceived, StageResponseStarted, StageResponseComplete, StagePanic}

// stageSet is a set of stages, one bit each.
type stageSet uint8

func setOf(list []Stage) (s stageSet) {
	for _, stage := range list {
		s |= bitOf(stage)
	}
	return s
}

func bitOf(stage Stage) stageSet {
	i := slices.Index(stages[:], stage)
	if i < 0 {
		return 0
	}
	return 1 << i
}
