package registry

import (
	"context"
	"fmt"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage"
)

// DeleteOptions are the options of Delete and DeleteCollection. Propagation is "", Background, Foreground or Orphan;
// other values are refused by whoever parses them.
type DeleteOptions struct {
	DryRun          bool
	UID             meta.UID         // "" or what the object's uid must be
	ResourceVersion storage.Revision // 0 or what the object's version must be
	Propagation     meta.DeletionPropagation
	GracePeriod     *int64 // seconds; negative counts as 1; kinds without graceful deletion ignore it (DEL-08)

	// OrphanDependents is the older form of Propagation, if that is what the client sent. Plugins are told of it in
	// place of Propagation, which is what counts.
	OrphanDependents *bool

	// MetadataOnly says that the caller uses metadata of the result alone, which may come in any form.
	MetadataOnly bool

	// IgnoreReadError deletes an object that exists and cannot be read, and refuses any other one. Options
	// other than MayIgnoreReadErrors have no effect with it. Rules, plugins and finalizers have no part
	// in such a deletion.
	IgnoreReadError bool

	// MayIgnoreReadErrors, if not nil, is asked before IgnoreReadError has an effect; its error is the
	// answer.
	MayIgnoreReadErrors func(context.Context) error

	// Unmet is set by Require where a precondition is one that no object meets: what is wrong with it.
	Unmet string
}

// Require adds the preconditions of a request; nil adds none. An empty uid, an empty version and
// version 0 are those of an object that was never stored: no object meets them, so that a client
// that forgot to read what it deletes does not delete what it never saw. The error is 400 for a
// version that is none.
// Source: DEL-11.
func (o *DeleteOptions) Require(p *meta.Preconditions) error {
	if p == nil {
		return nil
	}
	if p.UID != nil {
		if o.UID = *p.UID; o.UID == "" {
			o.Unmet = "UID in precondition: it is empty"
		}
	}
	if p.ResourceVersion == nil {
		return nil
	}
	if v := *p.ResourceVersion; v == "" || v == "0" {
		o.Unmet = fmt.Sprintf("ResourceVersion in precondition: %q is none that an object can have", v)
		return nil
	}
	version, err := storage.ParseRevision(*p.ResourceVersion)
	if err != nil {
		return status.BadRequest("invalid resource version in preconditions: %v", err)
	}
	o.ResourceVersion = version
	return nil
}
