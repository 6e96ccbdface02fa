package registry

import (
	"time"

	"github.com/kindwright/kindwright/meta"
)

// Migration says which stored objects an engine writes anew by itself, so that they are all stored as they are shown.
type Migration int

// What an engine migrates. Whatever it is, a write to an object stores it in the present form, and records of other forms are read as
// long as a conversion is known.
const (
	// MigrateVersions, the default, writes objects anew that were stored in another version: once all are, nothing needs that
	// version any more.
	MigrateVersions Migration = iota

	// MigrateSchemas does so as well with objects that were stored under another schema of the present version: new defaults,
	// for instance, then are in the store.
	MigrateSchemas

	// MigrateNothing leaves every object until somebody writes to it.
	MigrateNothing
)

// MigrationStatus says how far the migration of one resource is.
type MigrationStatus struct {
	Resource meta.GroupResource // in its stored form
	Version  string             // apiVersion of what is stored

	Done int // objects that were written anew
	Left int // objects that will be
	Kept int // objects that stay as they are, because something of them has no place in the present form, or the store no room for it

	Started, Ended time.Time // Ended is zero while it goes on; both are zero for one that ended before this start
}
