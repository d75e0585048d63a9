// Command generate writes the manifests that have a source elsewhere: the custom resource
// definitions, from the Go types of kubevirt.io/api and the patches beside them and from those of
// api/v1alpha1, with the DeepCopy functions of the latter and the table of HostProfile's fields, and the overlay for cert-manager, from
// the typed objects of package certs.
//
// Run it at the root of the repository: go run ./manifests/generate
package main

import (
	"fmt"
	"os"
)

// command stands in the header of every generated file.
const command = "go run ./manifests/generate"

func main() {
	if err := generate(); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func generate() error {
	if err := writeDefinitions("manifests/crds"); err != nil {
		return err
	}
	if err := writeOwnDefinitions("manifests/crds"); err != nil {
		return err
	}
	if err := writeFields("manifests/crds/hostprofiles/hostprofiles.yaml", "docs/host-profiles.md"); err != nil {
		return err
	}
	if err := writeCopies("api/v1alpha1"); err != nil {
		return err
	}
	return writeCertManager("manifests/overlays/cert-manager")
}
