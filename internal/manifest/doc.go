// Package manifest reads the objects in files that configure a program outside of the API, such as
// admission policies and webhooks. It knows no kind: those who read decide what may be in a file, and check
// it. Package internal/yaml reads the text.
package manifest
