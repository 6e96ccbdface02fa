// Package words says what is wrong with names in the words of Kubernetes, for documents that tools
// check by these words. Package meta has the same rules in words of its own.
package words
