package conformance

import (
	"context"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/storage"
)

// pairs in the environment makes every test run on two servers over one store, which answer its
// requests in turn: `make pairs`. What one of them has answered, the other one must know.
const pairs = "KINDWRIGHT_PAIRS"

// alone lists the tests that say something about a single process.
var alone = map[string]string{
	"TestS1_":     "limits are those of a process",
	"TestS6_":     "limits are those of a process",
	"TestAPF_01_": "limits are those of a process",
	"TestLIST_02_MatchUnsetLimitUnsetVersion0IsAny": "version 0 may be one that another server is past",
	"TestLIST_05_MatchUnsetLimitVersion0IsAny":      "version 0 may be one that another server is past",
	"TestLIST_17_NotOlderThanVersion0IsAny":         "version 0 may be one that another server is past",
	"TestLIST_20_NotOlderThanLimitVersion0IsAny":    "version 0 may be one that another server is past",
	"TestVER_15_":                        "a kind is installed in one process",
	"TestNS_02_TheContentGoes":           "a kind is installed in one process",
	"TestNS_02_KindsGoInTurn":            "a kind is installed in one process",
	"TestNS_02_ContentsWith":             "a kind is installed in one process",
	"TestNS_02_KindsNotServed":           "a kind is installed in one process",
	"TestZ15_GC_04_AnOwner":              "each process tells its own log",
	"TestEVT_31_EventsAreWrittenThrough": "the plugins of both are asked",
	"TestPATCH_01_TheOperationIsPatch":   "what the other one wrote makes a second try, which asks plugins again",
	"TestRULE_9_ANewDefaultAcross":       "the leader writes that it leads",
	"TestWATCH_34_ServerShutdown":        "the leader writes that it no longer leads",
}

// shared returns a store as one that several processes have open, if tests run on pairs. So one of the
// two servers leads.
func shared(t *testing.T, b storage.Backend) storage.Backend {
	t.Helper()
	if os.Getenv(pairs) == "" || isAlone(t.Name()) {
		return b
	}
	return several{b}
}

func isAlone(test string) bool {
	for name := range alone {
		if strings.HasPrefix(test, name) {
			return true
		}
	}
	return false
}

type several struct{ storage.Backend }

func (several) Exclusive() bool           { return false }
func (s several) Unwrap() storage.Backend { return s.Backend }

// alternate returns a handler that sends requests to a server and to a second one in turn, if tests
// run on pairs. wait waits until the second one has stopped.
func alternate(ctx context.Context, t *testing.T, first *kindwright.Server, more func() (*kindwright.Server, error)) (h http.Handler, wait func()) {
	t.Helper()
	if os.Getenv(pairs) == "" || isAlone(t.Name()) {
		return first, func() {}
	}
	second, err := more()
	require.NoError(t, err)
	require.NoError(t, second.Start(ctx))
	var turn atomic.Uint64
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if turn.Add(1)%2 == 0 {
			first.ServeHTTP(w, r)
			return
		}
		second.ServeHTTP(w, r)
	}), second.Wait
}
