// Package mirror keeps objects of another server at hand. A [Mirror] follows a collection, or one
// object, and shows the newest state that it knows, also while the other server is away.
package mirror
