package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/kindwright/kindwright/internal/files"
	"github.com/kindwright/kindwright/internal/json"
)

// defaultDataDir is the data directory if no flag sets one.
const defaultDataDir = "kube-apiserver-data"

// checkPrefix accepts a prefix that can become a file name.
func checkPrefix(prefix string) error {
	name := fileName(prefix)
	if name == "" {
		return errors.New("it is empty")
	}
	if len(name) > 200 {
		return errors.New("it is longer than 200 characters")
	}
	for _, c := range prefix {
		if c < ' ' || c == 0x7f || c == '\\' {
			return errors.New("it has characters that no file name can have")
		}
	}
	for part := range strings.SplitSeq(prefix, "/") {
		if part == "." || part == ".." {
			return fmt.Errorf("it has the part %q", part)
		}
	}
	return nil
}

// fileName returns the file of the objects below a prefix. Different prefixes have different files,
// unless they differ only in slashes at their ends. etcd does not distinguish those either.
func fileName(prefix string) string {
	return strings.ReplaceAll(strings.ReplaceAll(strings.Trim(prefix, "/"), "%", "%25"), "/", "%2F")
}

// dataFile returns the file of the store, whose directory exists.
func (o *options) dataFile(ctx context.Context) (string, error) {
	dir := o.dataDir
	switch {
	case len(o.etcdServers) > 0:
		var err error
		if dir, err = findDirectory(ctx, o.etcdServers); err != nil {
			return "", fmt.Errorf("--etcd-servers: %w", err)
		}
	case dir == "":
		dir = defaultDataDir
	}
	if err := files.Directory(dir); err != nil {
		return "", fmt.Errorf("--data-dir: %w", err)
	}
	return filepath.Join(dir, fileName(o.etcdPrefix)+".db"), nil
}

// Limits for requests to the etcd stand-in.
const (
	askTimeout = 5 * time.Second
	maxAnswer  = 64 << 10
)

// findDirectory asks the etcd stand-ins, in order, for their data directory.
func findDirectory(ctx context.Context, servers []string) (string, error) {
	var problems []error
	for _, server := range servers {
		dir, err := askDirectory(ctx, server)
		if err == nil {
			return dir, nil
		}
		problems = append(problems, fmt.Errorf("%s: %w", server, err))
	}
	return "", errors.Join(problems...)
}

func askDirectory(ctx context.Context, server string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(server, "/")+"/kindwright", nil)
	if err != nil {
		return "", err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // a single request
	answer, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = answer.Body.Close() }() // it is read
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return "", err
	}
	var told struct {
		DataDir string `json:"dataDir"`
	}
	if answer.StatusCode != http.StatusOK || json.Unmarshal(body, &told) != nil || !filepath.IsAbs(told.DataDir) {
		return "", errors.New("not the etcd stand-in of this program, and other etcd servers are not supported; without --etcd-servers objects are kept below --data-dir")
	}
	return told.DataDir, nil
}
