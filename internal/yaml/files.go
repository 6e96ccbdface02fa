package yaml

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Files returns the names of the files that match patterns, which are those of fs.Glob. Without
// patterns it returns all .yaml, .yml and .json files below the root.
func Files(fsys fs.FS, patterns []string) (names []string, err error) {
	if fsys == nil {
		return nil, errors.New("the file system is nil; give os.DirFS(\"directory\"), for instance")
	}
	for _, p := range patterns {
		found, err := fs.Glob(fsys, p)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", p, err)
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("%q: no such file", p)
		}
		names = append(names, found...)
	}
	if len(patterns) > 0 {
		return names, nil
	}
	err = fs.WalkDir(fsys, ".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, path.Ext(name)) {
			names = append(names, name)
		}
		return err
	})
	return names, err
}

// Documents splits a file at lines of "---". Documents without text are left out.
func Documents(data []byte) (out [][]byte) {
	var document []byte
	for line := range bytes.Lines(append(data[:len(data):len(data)], "\n---\n"...)) {
		if strings.TrimRight(string(line), " \r\n") != "---" {
			document = append(document, line...)
			continue
		}
		if len(bytes.TrimSpace(document)) > 0 {
			out = append(out, document)
		}
		document = nil
	}
	return out
}
