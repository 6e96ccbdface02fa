// Package typed shows trees as Go structs. Rules of kinds, subresources and admission plugins are written
// for a Go type; the object is a tree. Change carries over what a function changed in the struct, so
// fields that the type does not know survive.
package typed
