package manifests_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// TestOtherNamespaces: component namespace changes the three names wherever they stand, and nothing else.
func TestOtherNamespaces(t *testing.T) {
	for overlay, components := range map[string]string{
		"rotation": "", "cert-manager": "", "fail-open": "", "apiserver": "", "cert-manager with the API server": "apiserver, apiserver/cert-manager",
		"beside-kubevirt": "", "fail-open beside KubeVirt": "beside-kubevirt", "cert-manager beside KubeVirt": "beside-kubevirt",
		"beside-kubevirt with fewer namespaces": "beside-kubevirt/plugin, beside-kubevirt/opt-in, beside-kubevirt/warn",
		"beside-kubevirt with a plugin":         "beside-kubevirt/plugin", "fail-open with a plugin": "beside-kubevirt, beside-kubevirt/plugin",
	} {
		folder, _, _ := strings.Cut(overlay, " ")
		text := "resources: [%[1]s/overlays/" + folder + "]\n"
		var listed []string
		for component := range strings.SplitSeq(components, ", ") {
			if component != "" {
				listed = append(listed, "%[1]s/"+component)
			}
		}
		original := kustomized(t, text+"components: ["+strings.Join(listed, ", ")+"]\n")
		moved := kustomized(t, text+"components: ["+strings.Join(append(listed, "%[1]s/namespace"), ", ")+"]\n"+
			"configMapGenerator: [{name: kiln-namespaces, literals: [system=other-7, launchers=machines-7, kubevirt=virt-7]}]\n")
		if strings.Contains(moved, "kiln-system") {
			t.Errorf("%s: 'kiln-system' is still in it", overlay)
		}
		if strings.Contains(moved, ":kubevirt:") {
			t.Errorf("%s: accounts of namespace 'kubevirt' are still in it", overlay)
		}
		for name, least := range map[string]int{"other-7": 30, "virt-7": 6} {
			if n := strings.Count(moved, name); n < least {
				t.Errorf("%s: only %d places have the new name '%s'", overlay, n, name)
			}
		}
		back := strings.NewReplacer("other-7", "kiln-system", "machines-7", "kiln-launchers", "virt-7", "kubevirt").Replace(moved)
		if diff := cmp.Diff(original, back); diff != "" {
			t.Errorf("%s: other things change, or not all do:\n%s", overlay, diff)
		}
	}
}

// kustomized is what a kustomization makes whose text has %[1]s where the path of this directory belongs.
func kustomized(t *testing.T, text string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	manifests, err := filepath.Rel(dir, here) // kustomize takes no absolute path
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), fmt.Appendf(nil, text, manifests), 0o600); err != nil {
		t.Fatal(err)
	}
	return built(t, dir)
}

// built is what a kustomization makes, YAML.
func built(t *testing.T, dir string) string {
	t.Helper()
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		t.Fatal(err)
	}
	text, err := resources.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
