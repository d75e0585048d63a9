package guestcmd

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/kilnvm/kiln/pkg/render"
)

// rendering is the document of one VM or VMI.
type rendering struct {
	Object string `json:"object"`
	// Stage is 'frontend' or 'backend'.
	Stage string `json:"stage"`
	// Domain is the XML of the domain.
	Domain string `json:"domain"`
	// Documents are the documents that libvirt must have before the domain.
	Documents []render.Document `json:"documents,omitempty"`
}

// printDocuments prints the documents of one object as JSON or YAML. The last document must be the domain.
func (o *renderRun) printDocuments(r workbench.Reviewed, stage string, documents []render.Document) error {
	for i := range documents {
		documents[i].Object = "" // the printed document has a field for the object
	}
	last := len(documents) - 1
	return o.Print(rendering{r.Name(), stage, documents[last].XML, documents[:last]})
}

// writeDocuments writes a file for each document. It creates the folder with its parents, overwrites files of an earlier run, and keeps others.
// Trap: names of objects are not trusted, so os.Root keeps all files below the folder.
func writeDocuments(folder string, r workbench.Reviewed, documents []render.Document) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer root.Close()
	// Objects of several namespaces may have one name.
	of := filepath.Join(r.GetNamespace(), r.GetName())
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
