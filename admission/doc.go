// Package admission is where a server's own rules about writes are plugged in: code that may change an
// object on its way in (a Mutator) and code that may refuse it once nothing changes it any more (a Validator).
//
// The registry calls both from its one ordered list of steps, for every way of writing: create, update, every
// kind of patch, subresources, delete and each object of a collection delete. A plugin therefore never has to
// ask which HTTP verb was used, and no write goes round it. A deletion has no object, so mutators are not called for it.
//
// What belongs to one kind is not admission: defaults and validation of a kind are fields of registry.Kind.
// Who may do what is package authz. Answers a plugin gives are ordinary errors: Denied makes the usual 403, and any
// *status.Error is sent as it is. Any other error is taken for a fault of the plugin: the client gets a 500 that says
// nothing, and the log has the error and the plugin's name.
package admission
