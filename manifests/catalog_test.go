package manifests_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/kilnvm/kiln/test/samples"
)

// TestSamplesAndThePublishedCatalog: both catalogs can be installed in one cluster, because no object of manifests/catalog has the kind and the name of a
// published one.
func TestSamplesAndThePublishedCatalog(t *testing.T) {
	from := samples.Catalog(t)
	objectsOf := func(pattern string) map[string]bool {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("no files '%s': %v", pattern, err)
		}
		names := map[string]bool{}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, object := range documents(t, string(text)) {
				names[object.GetKind()+" "+object.GetName()] = true
			}
		}
		return names
	}
	ours, published := objectsOf("catalog/*s.yaml"), objectsOf(filepath.Join(from, "*.yaml"))
	if len(ours) < 5 || len(published) < 100 {
		t.Fatalf("%d samples and %d published objects", len(ours), len(published))
	}
	for name := range ours {
		if published[name] {
			t.Errorf("%s is in manifests/catalog and in the published catalog", name)
		}
	}
}
