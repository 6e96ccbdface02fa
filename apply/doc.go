// Package apply is server-side apply and managed fields: who owns which field of an object, and what an applied
// configuration makes of it. It is pure: trees and schemas in, trees out, no I/O and no clock.
//
// [Fields] holds the rules of one kind, made by [New] from the schemas of its versions. It has two methods, one for each way
// of writing:
//
//	Update   a create, an update or a patch: the new object is there, who owns its fields is worked out
//	Apply    a configuration is merged into what is stored, in agreement with those who own other fields
//
// Both return the object with metadata.managedFields. What the pipeline of a write needs beside them: [EqualButTimes] tells
// that a write would store nothing but new times, which is no change; [Check] tells whether managedFields can still be read
// after mutating admission. [Reach] keeps status out of what the main path owns, and everything else out of what the
// subresource status owns. [ToScale] and [FromScale] carry ownership of replicas between an object and its Scale.
//
// Merging is the work of sigs.k8s.io/structured-merge-diff, which nothing else imports and whose types stay in here. Around it
// stand what a server adds: entries and their times, fields that nobody owns, the bound on owners, conflicts in words,
// kubectl's way from client-side to server-side apply, and a quick way to see that an apply changes nothing.
//
// The cost of a call grows with the size of its trees, and where a map or a list with keys has very many members with the
// square of their number, up to a bound beyond which an object is not tracked. Nothing here panics on what a client sent.
//
// It is not for deciding what a schema allows (package openapi), for other patches (internal/patch), or for the order in
// which a write does all this (package registry), which is the next to read.
package apply
