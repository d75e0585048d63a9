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

// Artifact returns the artifact to publish: one file for each object, and the index with the lifecycles at the time now. The name of a file depends on its
// object, not on the layout of the author's folder.
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

// Manifest returns the i-th object of the catalog in YAML, only with the fields that its author wrote: otherwise the digest of a catalog that is published
// from a cluster would depend on UIDs and managedFields.
func (c Catalog) Manifest(i int) ([]byte, error) {
	return yaml.Marshal(c.AuthoredObject(i))
}

// AuthoredObject returns the i-th object of the catalog only with the fields that its author wrote: an exported object loses its status, owners and finalizers.
func (c Catalog) AuthoredObject(i int) map[string]any {
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

// untypedTexts converts a map to the type that untyped objects need: their DeepCopy panics at map[string]string.
func untypedTexts(of map[string]string) map[string]any {
	all := map[string]any{}
	for key, value := range of {
		all[key] = value
	}
	return all
}

// Digest returns the SHA-256 of the catalog's authored objects. It depends neither on the layout of the files nor on the order of the objects.
func (c Catalog) Digest() (string, error) {
	var texts []string
	for i := range c.Objects {
		raw, err := json.Marshal(c.AuthoredObject(i))
		if err != nil {
			return "", err
		}
		texts = append(texts, string(raw))
	}
	slices.Sort(texts)
	sum := sha256.New()
	for _, text := range texts {
		sum.Write([]byte(text + "\n")) // the JSON contains no line feed
	}
	return "sha256:" + hex.EncodeToString(sum.Sum(nil)), nil
}

// ReadIndex parses the index of a published catalog. It fails if the index has another apiVersion or kind, or too many objects.
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

// mostIndexed is the maximal number of JSON objects in an index, including labels: an object of two bytes takes a hundred times as much memory.
const mostIndexed = 50_000

// quoteBounded returns at most the first 100 bytes of a text that a registry sent.
func quoteBounded(text string) string { return text[:min(len(text), 100)] }
