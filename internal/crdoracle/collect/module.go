package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// modulesOf reads a list of modules.
func modulesOf(file string) (modules []string, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if name, version, found := strings.Cut(line, "@"); !found || name == "" || version == "" {
			return nil, fmt.Errorf("%s: %q is no module@version", file, line)
		}
		modules = append(modules, line)
	}
	return modules, nil
}

// ofModule downloads a module and writes the definitions in its files into a directory.
func ofModule(module, to string) (n int, err error) {
	root, err := download(module)
	if err != nil {
		return 0, err
	}
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if extension := filepath.Ext(path); !entry.Type().IsRegular() || extension != ".yaml" && extension != ".yml" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		more, err := write(to, text)
		n += more
		return err
	})
	return n, err
}

// download returns the directory in the module cache. It runs outside of any module, and takes nothing
// from GOFLAGS: what a module needs does not matter here.
func download(module string) (dir string, err error) {
	command := exec.CommandContext(context.Background(), "go", "mod", "download", "-json", module)
	command.Dir = os.TempDir()
	command.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	out, err := command.Output()
	var answer struct{ Dir, Error string }
	if bad := json.NewDecoder(bytes.NewReader(out)).Decode(&answer); bad != nil && err == nil {
		err = bad
	}
	if answer.Error != "" {
		return "", fmt.Errorf("download: %s", answer.Error)
	}
	return answer.Dir, err
}
