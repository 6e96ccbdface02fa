package kindwright

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/storage"
)

// maxNamedRecords is how many records the check names.
const maxNamedRecords = 10

// checkRecords is the health check that warns of objects in the store that cannot be read, and names them.
// The others are served, so the server stays ready.
func (s *Server) checkRecords(context.Context) error {
	var names []string
	n := 0
	for one := range s.engine.Unreadable() {
		if n++; n > maxNamedRecords {
			continue
		}
		resource, namespace, name, _ := storage.SplitObjectKey(one.Key)
		names = append(names, strings.TrimSuffix(resource+" "+namespace, " ")+"/"+name)
	}
	if n == 0 {
		return nil
	}
	slices.Sort(names)
	text := strings.Join(names, ", ")
	if n > len(names) {
		text += fmt.Sprintf(" and %d more", n-len(names))
	}
	return fmt.Errorf("%d stored objects cannot be read and are left out: %s; the log has the causes; restore them from a backup, "+
		"or delete each with ignoreStoreReadErrorWithClusterBreakingPotential", n, text)
}
