// Package pause waits before a retry. A test of code that waits uses package synctest.
package pause
