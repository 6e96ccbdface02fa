// Package memo remembers answers of other servers for a while.
package memo
