package catalogs

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/kilnvm/kiln/internal/oci"
	"github.com/kilnvm/kiln/pkg/catalog"
	"sigs.k8s.io/yaml"
)

// Artifact returns the catalog as it is published: one file for each object, and the index as of a time. Files are named by what they
// hold, so that the artifact of a catalog does not depend on how its author's folder is laid out.
func (c Catalog) Artifact(annotations map[string]string, now time.Time) (oci.Artifact, error) {
	index, err := json.Marshal(catalog.IndexOf(c.Objects, now))
	if err != nil {
		return oci.Artifact{}, err
	}
	a := oci.Artifact{Index: index, Annotations: annotations}
	for i, object := range c.Objects {
		manifest, err := c.Manifest(i)
		if err != nil {
			return oci.Artifact{}, fmt.Errorf("%s: %w", object.Key(), err)
		}
		a.Files = append(a.Files, oci.File{Name: fileOf(object), Content: manifest})
	}
	return a, nil
}

// fileOf returns the name of an object's file, such as 'instancetypes/u1.small.yaml' or 'team-a/preferences/linux.yaml'.
func fileOf(o *catalog.Object) string {
	folder := "preferences"
	if o.Instancetype != nil {
		folder = "instancetypes"
	}
	return path.Join(o.Namespace, folder, o.Name+".yaml")
}

// Manifest returns an object of the catalog in YAML, with those of its metadata that an author writes: what a cluster adds, such as the UID and the
// owner of each field, would change the digest of a catalog that is published from a cluster.
func (c Catalog) Manifest(i int) ([]byte, error) {
	return yaml.Marshal(c.Authored(i))
}

// Authored returns an object of the catalog as its author wrote it: an exported object loses its status, owners and finalizers.
func (c Catalog) Authored(i int) map[string]any {
	object, content := c.Objects[i], c.Origins[i].UnstructuredContent()
	metadata := map[string]any{"name": object.Name}
	if object.Namespace != "" {
		metadata["namespace"] = object.Namespace
	}
	if len(object.Labels) > 0 {
		metadata["labels"] = untypedTexts(object.Labels)
	}
	if len(object.Annotations) > 0 {
		metadata["annotations"] = untypedTexts(object.Annotations)
	}
	return map[string]any{"apiVersion": content["apiVersion"], "kind": content["kind"], "metadata": metadata, "spec": content["spec"]}
}

// untypedTexts returns a map as untyped objects hold it: their DeepCopy panics at any other type.
func untypedTexts(of map[string]string) map[string]any {
	all := map[string]any{}
	for key, value := range of {
		all[key] = value
	}
	return all
}

// Digest returns the SHA-256 of what the catalog's authors wrote. It depends neither on the layout of the files nor on the order of the objects.
func (c Catalog) Digest() (string, error) {
	var texts []string
	for i := range c.Objects {
		raw, err := json.Marshal(c.Authored(i))
		if err != nil {
			return "", err
		}
		texts = append(texts, string(raw))
	}
	slices.Sort(texts)
	sum := sha256.New()
	for _, text := range texts {
		sum.Write([]byte(text + "\n")) // JSON has no line feed outside of its texts, where it is escaped
	}
	return "sha256:" + hex.EncodeToString(sum.Sum(nil)), nil
}

// ReadIndex reads the index of a published catalog. It refuses one of another form.
func ReadIndex(raw []byte) (index catalog.Index, err error) {
	if n := bytes.Count(raw, []byte("{")); n > mostIndexed {
		return index, fmt.Errorf("the index of the catalog has %d objects: this version of Kiln reads at most %d", n, mostIndexed)
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	if err := decoder.Decode(&index); err != nil {
		return index, fmt.Errorf("the index of the catalog cannot be read: %w", err)
	}
	if known := catalog.IndexOf(nil, time.Time{}); index.TypeMeta != known.TypeMeta {
		return index, fmt.Errorf("the index of the catalog has apiVersion '%s' and kind '%s': this version of Kiln reads '%s' and '%s'",
			quoteBounded(index.APIVersion), quoteBounded(index.Kind), known.APIVersion, known.Kind)
	}
	return index, nil
}

// mostIndexed bounds the objects of an index, labels counted: an entry of two bytes takes a hundred times as much memory.
const mostIndexed = 50_000

// quoteBounded returns at most the first 100 bytes of a text that a registry sent.
func quoteBounded(text string) string { return text[:min(len(text), 100)] }
