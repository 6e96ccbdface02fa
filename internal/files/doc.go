// Package files reads and writes the small files of a server: certificates, keys, tokens and
// kubeconfigs. What it writes survives a power cut. It rejects files and directories through which
// another user could read a secret, plant one, or keep the server waiting.
package files
