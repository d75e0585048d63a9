package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/render"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// documentsOf are those of one guest: the side documents in the order of libvirt, if they are wanted, and the domain last.
func (o *options) documentsOf(g guest, r renderOptions) ([]render.Document, error) {
	machine, profiles, err := o.machine(g, r.placing, g.frozen)
	if err != nil {
		return nil, err
	}
	var rendered render.Result
	var errs field.ErrorList
	if r.stage == stageFrontend {
		rendered.Documents.Domain, errs = render.Frontend(machine)
	} else {
		rendered, errs = render.UnderProfiles(machine, profiles)
	}
	if len(errs) > 0 {
		g.verdict = admit.Verdict{Errors: errs} // its warnings have been told
		return nil, o.refuse(g, r.host)
	}
	var documents []render.Document
	if r.documents {
		if documents, err = rendered.Side(); err != nil {
			return nil, err
		}
	}
	domain := rendered.Documents.Domain
	xml, err := domain.Marshal()
	documents = append(documents, render.Document{Kind: "domain", Name: domain.Name, XML: xml})
	for i := range documents {
		documents[i].Object = g.name()
	}
	return documents, err
}

// printDocuments prints what 'render -o json' has for each object.
func (o *options) printDocuments(g guest, stage string, documents []render.Document) error {
	for i := range documents {
		documents[i].Object = "" // said once
	}
	last := len(documents) - 1
	return o.print(struct {
		Object string `json:"object"`
		Stage  string `json:"stage"`
		Domain string `json:"domain"`
		// Documents are those that libvirt must have before the domain.
		Documents []render.Document `json:"documents,omitempty"`
	}{g.name(), stage, documents[last].XML, documents[:last]})
}

// writeDocuments writes a file for each document. Names are those of the object's owner: none leads out of the folder.
func writeDocuments(folder string, g guest, documents []render.Document) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer root.Close()
	of := filepath.Join(g.GetNamespace(), g.GetName())
	if err := root.MkdirAll(of, 0o755); err != nil {
		return err
	}
	for _, d := range documents {
		name := d.Kind
		if d.Kind != "domain" {
			name += "-" + strings.ReplaceAll(d.Name, "/", "-")
		}
		if err := root.WriteFile(filepath.Join(of, name+".xml"), []byte(d.XML+"\n"), 0o644); err != nil {
			return fmt.Errorf("--output-dir: %w", err)
		}
	}
	return nil
}
