// Package clip truncates text from clients for messages and fields of limited length.
package clip
