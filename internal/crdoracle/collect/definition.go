package main

import (
	"crypto/sha256"

	"sigs.k8s.io/yaml"
)

type definition struct {
	name string
	text []byte
}

// sum identifies the content, whatever its comments and its order are.
func (d definition) sum() []byte {
	var tree any
	if err := yaml.Unmarshal(d.text, &tree); err == nil {
		if text, err := yaml.Marshal(tree); err == nil {
			d.text = text
		}
	}
	sum := sha256.Sum256(d.text)
	return sum[:4]
}
