// Command generate writes all generated files:
//   - the custom resource definitions, from the types of kubevirt.io/api and api/v1alpha1, changed by the patches beside them;
//   - the DeepCopy functions of api/v1alpha1;
//   - the pages of docs about Kiln's kinds, and about its annotations, labels, conditions and reasons;
//   - the overlay and the component for cert-manager, from the typed objects of package certs;
//   - the templates of the Helm chart, from the objects that kustomize builds of all these; its README.md, from the comments of its values; and its icon.
//
// Run it at the root of the repository: go run ./manifests/generate. A test fails if a file differs from its output.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// command is named in the header of every generated file.
const command = "go run ./manifests/generate"

func main() {
	if err := generateAll(); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

// generateAll writes the definitions first, because the pages of docs depend on them.
func generateAll() error {
	if err := writeDefinitions("manifests/crds"); err != nil {
		return err
	}
	if err := writeOwnDefinitions("manifests/crds"); err != nil {
		return err
	}
	if err := writeFields("manifests/crds/hostprofiles/hostprofiles.yaml", "docs/reference/host-profiles.md"); err != nil {
		return err
	}
	if err := writeReference("manifests/crds", "api/v1alpha1", "docs/reference"); err != nil {
		return err
	}
	if err := writeCopies("api/v1alpha1"); err != nil {
		return err
	}
	if err := writeCertManager("manifests/overlays/cert-manager"); err != nil {
		return err
	}
	if err := writeAPIServerCertManager("manifests/apiserver/cert-manager"); err != nil {
		return err
	}
	if err := writeChart("manifests", "manifests/chart/kiln/templates"); err != nil {
		return err
	}
	if err := writeChartPage("manifests/chart/kiln/values.yaml", "manifests/chart/kiln/README.md"); err != nil {
		return err
	}
	if err := writeValuesPage("manifests/chart/kiln/values.yaml", "docs/reference/helm-values.md"); err != nil {
		return err
	}
	return writeIcon("manifests/chart/icon.svg", "manifests/chart/kiln/Chart.yaml")
}

// writeReference writes the pages about kinds and keys into a folder.
func writeReference(crds, types, dir string) error {
	if err := writeKinds(crds, filepath.Join(dir, "kinds.md")); err != nil {
		return err
	}
	return writeKeys(types, filepath.Join(dir, "keys.md"))
}
