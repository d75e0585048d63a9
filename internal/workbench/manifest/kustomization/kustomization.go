// Package kustomization builds kustomizations. It is apart from package manifest, because kustomize is large, and a program that reads only files does not
// need it.
package kustomization

import (
	"bytes"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// Build builds the kustomization of a directory, and returns YAML documents. With the library's defaults, which kubectl uses, too, it runs no plugins, and
// reads no file outside of the directory.
func Build(directory string) ([]byte, error) {
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), directory)
	if err != nil {
		return nil, err
	}
	raw, err := built.AsYaml()
	return bytes.TrimSpace(raw), err
}
