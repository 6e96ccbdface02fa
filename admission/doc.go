// Package admission lets a server add its own rules for writes: code that may change an object on
// its way in (a [Mutator]), and code that may reject the final object (a [Validator]).
//
// The registry calls both from its lists of steps, for every way of writing: create, update, every
// kind of patch, subresources, delete, and each object of a collection delete. A plugin therefore
// never has to ask which HTTP verb was used, and no write bypasses it.
//
// A plugin says which writes it handles with [Plugin.Rules] or [Plugin.Handles]. Both are asked
// before the engine reads any object, so a plugin costs nothing for other writes.
//
// The trees in a [Request] are shared with the engine and are read-only. A mutator returns another
// tree, usually made by [Patched]. The engine recognizes a change because the returned map is
// another one; it copies and compares nothing. [Chain.Checked] finds plugins that break this rule,
// for tests.
//
// Defaults and validation of one kind are not admission: they are fields of registry.Kind. Who may
// do what is package authz.
//
// A plugin answers with ordinary errors. [Denied] makes the usual 403, and any *status.Error is
// sent as it is. Any other error counts as a fault of the plugin: the client gets a 500 without
// details, and the log has the error and the plugin's name.
package admission
