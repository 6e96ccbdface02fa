// Package load runs an operation many times: as fast as a number of workers can, or at a given rate. It says how long each
// took and what went wrong, and knows nothing of HTTP.
//
// It is not for deciding what is measured (package driver) or what a process spent meanwhile (package process).
package load
