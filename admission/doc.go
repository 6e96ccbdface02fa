// Package admission is where a server's own rules about writes are plugged in: code that may change
// an object on its way in (a [Mutator]) and code that may refuse it once nothing changes it any more
// (a [Validator]).
//
// The registry calls both from its lists of steps, for every way of writing: create, update, every
// kind of patch, subresources, delete, and each object of a collection delete. A plugin therefore
// never has to ask which HTTP verb was used, and no write goes round it.
//
// A plugin says which writes it handles with [Plugin.Rules] or [Plugin.Handles]. Both are asked
// before any object is looked at, so a plugin costs nothing for the writes that do not concern it.
//
// The trees in a [Request] are shared with the engine and are read-only. A mutator returns another
// tree, mostly made by [Patched]; the engine sees a change because the map that comes back is
// another one. Nothing is copied and nothing is compared. [Chain.Checked] finds plugins that break
// this rule, for tests.
//
// What belongs to one kind is not admission: defaults and validation of a kind are fields of
// registry.Kind. Who may do what is package authz.
//
// A plugin answers with ordinary errors. [Denied] makes the usual 403, and any *status.Error is sent
// as it is. Any other error is taken for a fault of the plugin: the client gets a 500 that says
// nothing, and the log has the error and the plugin's name.
package admission
