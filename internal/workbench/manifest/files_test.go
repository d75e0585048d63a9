package manifest

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/cli-runtime/pkg/resource"
	"sigs.k8s.io/kustomize/api/konfig"
)

// TestNamesOfFiles: files are found by the same names as in kubectl and kustomize.
func TestNamesOfFiles(t *testing.T) {
	if diff := cmp.Diff(resource.FileExtensions, FileExtensions); diff != "" {
		t.Error("kubectl reads files with other extensions:", diff)
	}
	if diff := cmp.Diff(konfig.RecognizedKustomizationFileNames(), kustomizationFiles); diff != "" {
		t.Error("kustomize reads other files:", diff)
	}
}
