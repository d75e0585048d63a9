package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
)

// typesOf are the Go types of the kinds of the corpus.
var typesOf = map[string]reflect.Type{
	"VirtualMachine":                    reflect.TypeFor[v1.VirtualMachine](),
	"VirtualMachineInstance":            reflect.TypeFor[v1.VirtualMachineInstance](),
	"VirtualMachineInstancePreset":      reflect.TypeFor[v1.VirtualMachineInstancePreset](),
	"VirtualMachineInstancetype":        reflect.TypeFor[v1beta1.VirtualMachineInstancetype](),
	"VirtualMachineClusterInstancetype": reflect.TypeFor[v1beta1.VirtualMachineClusterInstancetype](),
	"VirtualMachinePreference":          reflect.TypeFor[v1beta1.VirtualMachinePreference](),
	"VirtualMachineClusterPreference":   reflect.TypeFor[v1beta1.VirtualMachineClusterPreference](),
}

// TestEmptyListsAndMapsChangeNothing: charts write 'interfaces: []' and 'annotations: {}'. With an empty one at each place that may
// hold a list or a map and has none, every command answers as without.
func TestEmptyListsAndMapsChangeNothing(t *testing.T) {
	t.Parallel()
	answered := map[string]int{}
	for _, file := range corpusFiles(t) {
		for _, one := range objectsOf(t, file) {
			if typesOf[one.GetKind()] == nil {
				continue
			}
			args := []string{}
			if cluster := filepath.Join(filepath.Dir(file), "cluster.yaml"); exists(cluster) {
				args = []string{"--catalog", cluster}
			}
			plain, hollow := asJSON(t, one.Object), asJSON(t, one.Object)
			var content map[string]any
			if err := json.Unmarshal([]byte(hollow), &content); err != nil {
				t.Fatal(err)
			}
			added := 0
			fill(typesOf[one.GetKind()], content, "", func(_ string, parent map[string]any, name string, empty any) {
				parent[name] = empty
				added++
			})
			if added < 3 {
				t.Errorf("%s: only %d empty lists and maps", file, added)
			}
			hollow = asJSON(t, content)
			for _, command := range []string{"validate", "expand", "explain", "render"} {
				want, got := call(t, plain, append([]string{command, "-f", "-"}, args...)...), call(t, hollow, append([]string{command, "-f", "-"}, args...)...)
				if diff := cmp.Diff(seen(want), seen(got)); diff != "" {
					t.Errorf("%s of %s (-without +with empty lists and maps):\n%s", command, file, diff)
				}
				answered[command] += 1 - cmdutil.ExitStatus(got.err)
				if want.err != nil {
					break // a rejection is one for each command
				}
			}
			_, before := write(t, plain)
			_, after := write(t, hollow)
			if got := call(t, "", append([]string{"diff", before, after}, args...)...); cmdutil.ExitStatus(got.err) == 0 {
				answered["diff"]++
			} else if same := call(t, "", append([]string{"diff", before, before}, args...)...); cmdutil.ExitStatus(same.err) != cmdutil.ExitStatus(got.err) {
				t.Errorf("diff of %s: %v\n%s%s", file, got.err, got.out, got.errOut)
			}
		}
	}
	t.Log(answered)
	for command, times := range answered {
		if times < 50 {
			t.Errorf("%s has accepted %d manifests: the test looks at the wrong ones", command, times)
		}
	}
}

// TestEachEmptyListOrMapAlone: one at a time, in a guest of a VM that has an instancetype, a preference and a preset.
func TestEachEmptyListOrMapAlone(t *testing.T) {
	t.Parallel()
	_, catalog := write(t, size, preference, preset)
	one := decoded(t, []byte(preferred))[0]
	want := call(t, asJSON(t, one.Object), "expand", "-f", "-", "--catalog", catalog, "--stage", "all")
	if want.err != nil {
		t.Fatal(want.err, want.errOut)
	}
	tried := 0
	fill(typesOf["VirtualMachine"], one.Object, "", func(path string, parent map[string]any, name string, empty any) {
		parent[name] = empty
		got := call(t, asJSON(t, one.Object), "expand", "-f", "-", "--catalog", catalog, "--stage", "all")
		delete(parent, name)
		if diff := cmp.Diff(afterAdmission(want), afterAdmission(got)); diff != "" || got.err != nil {
			t.Errorf("%s.%s: %v %s (-without +with):\n%s", path, name, got.err, got.errOut, diff)
		}
		tried++
	})
	if tried < 15 {
		t.Errorf("%d empty lists and maps, want all that a VM may have", tried)
	}
}

// telling are the fields that say something when they are empty, for KubeVirt as for Kiln.
var telling = map[string]string{
	"utilityVolumes": "may not be written before the guest runs",
	"portRanges":     "need a feature gate, and a binding",
	"nodeSelector":   "any node, which is a choice: it conflicts with the nodeSelector of an instancetype",
}

// afterAdmission returns what is printed except the VM itself, which a cluster stores as it was written.
func afterAdmission(a answer) string {
	documents := strings.SplitN(a.out, "---\n", 3)
	return documents[len(documents)-1]
}

// fill hands every list and map that an object of a type may have, and does not, to add.
func fill(is reflect.Type, content any, path string, add func(path string, parent map[string]any, name string, empty any)) {
	for is.Kind() == reflect.Pointer {
		is = is.Elem()
	}
	if reflect.PointerTo(is).Implements(reflect.TypeFor[json.Unmarshaler]()) && !strings.HasPrefix(is.PkgPath(), "kubevirt.io/api/") {
		return // a quantity or a time: a text
	}
	switch content := content.(type) {
	case []any:
		for _, item := range content {
			fill(is.Elem(), item, path+"[]", add)
		}
	case map[string]any:
		if is.Kind() == reflect.Map {
			for key, value := range content {
				fill(is.Elem(), value, path+"["+key+"]", add)
			}
			return
		}
		for i := range is.NumField() {
			fillField(is.Field(i), content, path, add)
		}
	}
}

func fillField(field reflect.StructField, content map[string]any, path string, add func(path string, parent map[string]any, name string, empty any)) {
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	value, found := content[name]
	switch {
	case name == "-" || name == "status" || telling[name] != "":
	case name == "":
		fill(field.Type, content, path, add)
	case found:
		fill(field.Type, value, path+"."+name, add)
	case field.Type.Kind() == reflect.Map:
		add(path, content, name, map[string]any{})
	case field.Type.Kind() == reflect.Slice && field.Type.Elem().Kind() != reflect.Uint8:
		add(path, content, name, []any{})
	}
}

// corpusFiles are the inputs of the corpus; what a case has in its cluster lies beside them.
func corpusFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("../../test/corpus/*/vm*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no corpus: %v", err)
	}
	return files
}

func objectsOf(t *testing.T, file string) []unstructured.Unstructured {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return decoded(t, raw)
}

// decoded are the objects of a file as Kubernetes' own decoder reads them.
func decoded(t *testing.T, raw []byte) (all []unstructured.Unstructured) {
	t.Helper()
	for decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(raw), 4096); ; {
		var one unstructured.Unstructured
		err := decoder.Decode(&one.Object)
		switch {
		case errors.Is(err, io.EOF):
			return all
		case err != nil:
			t.Fatal(err)
		case one.Object != nil:
			all = append(all, one)
		}
	}
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

func asJSON(t *testing.T, content any) string {
	t.Helper()
	raw, err := json.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw) + "\n"
}

// place is the line that an error stands at, with its text.
var place = regexp.MustCompile(`(?m)^    standard input:.*\n`)

// seen is an answer without the text of the manifest.
func seen(a answer) []any {
	return []any{cmdutil.ExitStatus(a.err), a.out, place.ReplaceAllString(a.errOut, "")}
}
