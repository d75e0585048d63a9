// Package fleet makes dumps of clusters with thousands of VMs, for tests and benchmarks: VMs of the instancetypes and preferences of a catalog, pinned as Kiln
// pins them. The same seed makes the same fleet.
package fleet

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/revision"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/instancetype"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// Fleet is a cluster with VMs.
type Fleet struct {
	// Catalog are the instancetypes and preferences.
	Catalog []*unstructured.Unstructured
	// Namespaces, Revisions and VMs are the other objects.
	Namespaces, Revisions, VMs []*unstructured.Unstructured
	// Settings are further objects, such as the KubeVirt object. Make leaves them empty.
	Settings []*unstructured.Unstructured

	random                     *rand.Rand
	written                    map[string]bool
	instancetypes, preferences []*unstructured.Unstructured
}

// ReadCatalog returns the instancetypes and preferences in the files of a folder.
func ReadCatalog(t testing.TB, folder string) (all []*unstructured.Unstructured) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no catalog in '%s': %v", folder, err)
	}
	for _, file := range files {
		opened, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		decoder := utilyaml.NewYAMLOrJSONDecoder(opened, 4096)
		for {
			object := &unstructured.Unstructured{}
			if err := decoder.Decode(&object.Object); err == io.EOF {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if object.Object != nil {
				all = append(all, object)
			}
		}
		if err := opened.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// perNamespace is the number of VMs of a namespace.
const perNamespace = 20

// Make returns a fleet of n VMs of a catalog. Most are pinned; a tenth is pinned to an older content of its preference, and a tenth is not pinned, as before
// Kiln is installed.
func Make(t testing.TB, seed uint64, n int, catalog []*unstructured.Unstructured) *Fleet {
	t.Helper()
	f := &Fleet{Catalog: catalog, random: rand.New(rand.NewPCG(seed, seed)), written: map[string]bool{}}
	for _, object := range catalog {
		if strings.HasSuffix(object.GetKind(), "Preference") {
			f.preferences = append(f.preferences, object)
		} else {
			f.instancetypes = append(f.instancetypes, object)
		}
	}
	for i := range n {
		namespace := fmt.Sprintf("team-%03d", i/perNamespace)
		if i%perNamespace == 0 {
			f.Namespaces = append(f.Namespaces, object("v1", "Namespace", "", namespace, nil))
		}
		f.addVM(t, namespace, i)
	}
	return f
}

// pick returns a random element.
func pick[T any](f *Fleet, of ...T) T { return of[f.random.IntN(len(of))] }

// addVM adds a VM of random objects of the catalog.
func (f *Fleet) addVM(t testing.TB, namespace string, number int) {
	name := fmt.Sprintf("%s-%05d", pick(f, "web", "db", "desktop", "build"), number)
	size, preference := pick(f, f.instancetypes...), pick(f, f.preferences...)
	disk := map[string]any{"name": "root", "disk": map[string]any{}}
	devices := map[string]any{"disks": []any{disk}}
	networks := []any{map[string]any{"name": "default", "pod": map[string]any{}}}
	switch f.random.IntN(4) {
	case 0:
		disk["disk"] = map[string]any{"bus": pick(f, "virtio", "sata", "scsi")}
	case 1:
		devices["interfaces"] = []any{map[string]any{"name": "default", "masquerade": map[string]any{}, "model": pick(f, "virtio", "e1000e")}}
	case 2:
		devices["interfaces"] = []any{map[string]any{"name": "default", "masquerade": map[string]any{},
			"macAddress": fmt.Sprintf("02:00:00:%02x:%02x:%02x", number>>16&255, number>>8&255, number&255)}}
	default:
		networks = nil
		devices["autoattachPodInterface"] = false
	}
	spec := map[string]any{"domain": map[string]any{"devices": devices},
		"volumes": []any{map[string]any{"name": "root", "persistentVolumeClaim": map[string]any{"claimName": name + "-root"}}}}
	if networks != nil {
		spec["networks"] = networks
		if devices["interfaces"] == nil {
			devices["interfaces"] = []any{map[string]any{"name": "default", "masquerade": map[string]any{}}}
		}
	}
	vm := object("kubevirt.io/v1", "VirtualMachine", namespace, name, map[string]any{
		"runStrategy":  pick(f, "Always", "Halted"),
		"instancetype": map[string]any{"name": size.GetName()}, "preference": map[string]any{"name": preference.GetName()},
		"template": map[string]any{"metadata": map[string]any{"labels": map[string]any{"app": pick(f, "a", "b", "c")}}, "spec": spec},
	})
	vm.SetUID(uidOf(number))
	vm.SetResourceVersion(fmt.Sprint(1000 + number))
	vm.SetLabels(map[string]string{"app.kubernetes.io/part-of": pick(f, "shop", "office", "lab")})
	switch f.random.IntN(10) {
	case 0: // not pinned
	case 1:
		f.pinVM(t, vm, size, older(preference))
	default:
		f.pinVM(t, vm, size, preference)
	}
	f.VMs = append(f.VMs, vm)
}

// uidOf returns the UID of a VM.
func uidOf(number int) types.UID {
	return types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012x", number))
}

// pinVM pins a VM to the content of an instancetype and a preference, no presets and the default configuration.
func (f *Fleet) pinVM(t testing.TB, vm, size, preference *unstructured.Unstructured) {
	t.Helper()
	configuration, err := config.Snapshot(config.Default().Defaults)
	if err != nil {
		t.Fatal(err)
	}
	pins := v1alpha1.Pins{Presets: []string{}}
	for to, object := range map[*string]*unstructured.Unstructured{
		&pins.Instancetype: size, &pins.Preference: preference, &pins.Configuration: {Object: configuration},
	} {
		*to = f.AddRevision(t, vm.GetNamespace(), object)
	}
	raw, err := json.Marshal(pins)
	if err != nil {
		t.Fatal(err)
	}
	vm.SetAnnotations(map[string]string{v1alpha1.AnnotationPins: string(raw), v1alpha1.AnnotationIdentity: string(vm.GetUID())})
}

// AddRevision adds the revision of an object to a namespace, and returns its name.
func (f *Fleet) AddRevision(t testing.TB, namespace string, of *unstructured.Unstructured) string {
	t.Helper()
	draft, err := revision.NewDraft(namespace, of)
	if err != nil {
		t.Fatal(err)
	}
	if key := namespace + "/" + draft.Name; !f.written[key] {
		f.written[key] = true
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(draft.Object())
		if err != nil {
			t.Fatal(err)
		}
		stored := &unstructured.Unstructured{Object: content}
		stored.SetAPIVersion("apps/v1")
		stored.SetKind("ControllerRevision")
		f.Revisions = append(f.Revisions, stored)
	}
	return draft.Name
}

// older returns an earlier content of a preference: without its devices, so that its disks and interfaces have other buses.
func older(preference *unstructured.Unstructured) *unstructured.Unstructured {
	was := preference.DeepCopy()
	unstructured.RemoveNestedField(was.Object, "spec", "devices")
	return was
}

func object(version, kind, namespace, name string, spec map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": version, "kind": kind, "metadata": map[string]any{"name": name}}}
	if namespace != "" {
		o.SetNamespace(namespace)
	}
	if spec != nil {
		o.Object["spec"] = spec
	}
	return o
}

// Write writes the fleet as 'kubectl get -o yaml' does, and returns the file.
func (f *Fleet) Write(t testing.TB) string {
	t.Helper()
	var text strings.Builder
	text.WriteString("apiVersion: v1\nitems:\n")
	for _, objects := range [][]*unstructured.Unstructured{f.Catalog, f.Settings, f.Namespaces, f.Revisions, f.VMs} {
		for _, object := range objects {
			raw, err := yaml.Marshal(object.Object)
			if err != nil {
				t.Fatal(err)
			}
			item := "- " + strings.ReplaceAll(strings.TrimSuffix(string(raw), "\n"), "\n", "\n  ")
			text.WriteString(item + "\n")
		}
	}
	text.WriteString("kind: List\nmetadata: {resourceVersion: \"\"}\n")
	path := filepath.Join(t.TempDir(), "dump.yaml")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Find returns the object of a catalog with a name.
func Find(t testing.TB, catalog []*unstructured.Unstructured, kind, name string) *unstructured.Unstructured {
	t.Helper()
	for _, object := range catalog {
		if object.GetKind() == kind && object.GetName() == name {
			return object
		}
	}
	t.Fatalf("the catalog has no %s '%s'", kind, name)
	return nil
}

// Kinds of the catalog that fleets use.
var (
	Instancetypes = instancetype.Kinds.Cluster
	Preferences   = instancetype.PreferenceKinds.Cluster
)
