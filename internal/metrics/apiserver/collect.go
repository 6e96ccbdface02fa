package apiserver

import (
	"iter"
	"runtime"

	"github.com/kindwright/kindwright/internal/metrics"
)

// A Stored is the state of one stored resource and of its live view.
type Stored struct {
	Group, Resource string

	Objects  int
	Revision uint64 // that the live view has reached
	Received uint64 // changes that the live view was told of since the start
	Watchers int
	Changes  int // that the log keeps, for watches that resume
	LogBytes int // that the log keeps in memory

	Unreadable int // objects in the store that cannot be read

	Comparisons, Divergences uint64 // of the live view with the store
}

// The families of CollectStored.
const (
	storageObjects = iota
	resourceObjects
	cacheRevision
	eventsReceived
	eventsDispatched
	watchers
	logChanges
	logBytes
	unreadable
	comparisons
	divergences
)

// storedFamilies: a change is in the log, and so given to every watcher, at the moment it is received.
// The counts of received and dispatched events are therefore the same here.
var storedFamilies = [...]metrics.Desc{
	storageObjects:   gauge("apiserver_storage_objects", "Objects in the store, by resource and group in one label.", "resource"),
	resourceObjects:  gauge("apiserver_resource_objects", "Objects in the store.", "group", "resource"),
	cacheRevision:    gauge("apiserver_watch_cache_resource_version", "Revision of the live view, its last 15 digits.", "group", "resource"),
	eventsReceived:   counter("apiserver_watch_cache_events_received_total", "Changes that the live view was told of.", "group", "resource"),
	eventsDispatched: counter("apiserver_watch_cache_events_dispatched_total", "Changes that the live view gave to its watchers.", "group", "resource"),
	watchers:         gauge("kindwright_watch_watchers", "Watches that are open, those of the server itself included.", "group", "resource"),
	logChanges:       gauge("kindwright_watch_log_changes", "Changes that are kept for watches that resume.", "group", "resource"),
	logBytes:         gauge("kindwright_watch_log_bytes", "Memory that these changes keep in use.", "group", "resource"),
	unreadable:       gauge("kindwright_storage_unreadable_objects", "Objects in the store that cannot be read.", "group", "resource"),
	comparisons:      counter("kindwright_watch_comparisons_total", "Comparisons of the live view with the store.", "group", "resource"),
	divergences:      counter("kindwright_watch_divergences_total", "Comparisons that found a difference.", "group", "resource"),
}

// CollectStored registers the families about stored resources. Each scrape calls all, which yields each
// stored resource once.
func CollectStored(r *metrics.Registry, all func() iter.Seq[Stored]) {
	r.Collect(storedFamilies[:], func(b *metrics.Batch) {
		for s := range all() {
			joined := s.Resource
			if s.Group != "" {
				joined += "." + s.Group
			}
			b.Add(storageObjects, float64(s.Objects), joined)
			b.Add(resourceObjects, float64(s.Objects), s.Group, s.Resource)
			b.Add(cacheRevision, float64(s.Revision%1e15), s.Group, s.Resource)
			b.Add(eventsReceived, float64(s.Received), s.Group, s.Resource)
			b.Add(eventsDispatched, float64(s.Received), s.Group, s.Resource)
			b.Add(watchers, float64(s.Watchers), s.Group, s.Resource)
			b.Add(logChanges, float64(s.Changes), s.Group, s.Resource)
			b.Add(logBytes, float64(s.LogBytes), s.Group, s.Resource)
			b.Add(unreadable, float64(s.Unreadable), s.Group, s.Resource)
			b.Add(comparisons, float64(s.Comparisons), s.Group, s.Resource)
			b.Add(divergences, float64(s.Divergences), s.Group, s.Resource)
		}
	})
}

// A Garbage is what the garbage collector has done, and has yet to do.
type Garbage struct {
	Reads, Deletes, Stripped, Released, Retries, Unserved int64 // since the start

	References int // in the index
	Waiting    int // objects that are to be looked at
}

var garbageFamilies = [...]metrics.Desc{
	counter("kindwright_gc_reads_total", "Objects that the garbage collector read."),
	counter("kindwright_gc_deletes_total", "Dependents that the garbage collector deleted or marked for deletion."),
	counter("kindwright_gc_orphaned_total", "Dependents whose owner references the garbage collector removed."),
	counter("kindwright_gc_released_total", "Owners from which the garbage collector removed its finalizer."),
	counter("kindwright_gc_retries_total", "Objects that the garbage collector had to look at again."),
	counter("kindwright_gc_unserved_total", "Those of the retries whose reason was a kind that is not served."),
	gauge("kindwright_gc_references", "Owner references in the garbage collector's index."),
	gauge("kindwright_gc_queue_length", "Objects that the garbage collector has yet to look at."),
}

// CollectGarbage registers the families about the garbage collector.
func CollectGarbage(r *metrics.Registry, state func() Garbage) {
	r.Collect(garbageFamilies[:], func(b *metrics.Batch) {
		g := state()
		for i, n := range []int64{g.Reads, g.Deletes, g.Stripped, g.Released, g.Retries, g.Unserved, int64(g.References), int64(g.Waiting)} {
			b.Add(i, float64(n))
		}
	})
}

// A Migration is how far the migration of one stored resource is, in objects.
type Migration struct {
	Group, Resource string

	Done, Left, Kept int
}

var migrationFamilies = [...]metrics.Desc{
	gauge("kindwright_migration_objects", "Objects by the state of their migration: done, left to do, or kept since they cannot be migrated.", "group", "resource", "state"),
}

// CollectMigrations registers the family about migrations.
func CollectMigrations(r *metrics.Registry, all func() iter.Seq[Migration]) {
	r.Collect(migrationFamilies[:], func(b *metrics.Batch) {
		for m := range all() {
			b.Add(0, float64(m.Done), m.Group, m.Resource, "done")
			b.Add(0, float64(m.Left), m.Group, m.Resource, "left")
			b.Add(0, float64(m.Kept), m.Group, m.Resource, "kept")
		}
	})
}

// A Build says which version a server is. What is not known stays empty.
type Build struct {
	Major, Minor, GitVersion, GitCommit, GitTreeState, BuildDate string
}

var buildFamilies = [...]metrics.Desc{
	gauge("kubernetes_build_info", "The version of the server, as labels.",
		"major", "minor", "git_version", "git_commit", "git_tree_state", "build_date", "go_version", "compiler", "platform"),
}

// CollectBuild registers the family that has the version in its labels.
func CollectBuild(r *metrics.Registry, v Build) {
	r.Collect(buildFamilies[:], func(b *metrics.Batch) {
		b.Add(0, 1, v.Major, v.Minor, v.GitVersion, v.GitCommit, v.GitTreeState, v.BuildDate, runtime.Version(), runtime.Compiler, runtime.GOOS+"/"+runtime.GOARCH)
	})
}
