package command

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// decoders are the one of the informer of VMs, and client-go's.
func decoders(t testing.TB) (slim, usual runtime.Decoder) {
	t.Helper()
	all, err := scheme()
	if err != nil {
		t.Fatal(err)
	}
	codecs := serializer.WithoutConversionCodecFactory{CodecFactory: serializer.NewCodecFactory(all)}
	info, found := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), runtime.ContentTypeJSON)
	if !found {
		t.Fatal("no serializer of JSON")
	}
	return slimSerializer{codecs}.DecoderToVersion(info.Serializer, nil), codecs.DecoderToVersion(info.Serializer, nil)
}

// sameInCache checks that Slim returns equal objects for both decoders, or that both return the same error.
func sameInCache(t *testing.T, why string, raw []byte) {
	t.Helper()
	slim, usual := decoders(t)
	kept := func(by runtime.Decoder) any {
		object, kind, err := by.Decode(raw, nil, nil)
		if err != nil {
			return err.Error()
		}
		small, err := Slim(object)
		if err != nil {
			t.Fatal(err)
		}
		return []any{small, *kind}
	}
	if diff := cmp.Diff(kept(usual), kept(slim)); diff != "" {
		t.Errorf("%s (-client-go +informer):\n%s", why, diff)
	}
}

// TestInformerReadsVMs: the cache of VMs holds what it would hold if client-go's decoder had read them.
func TestInformerReadsVMs(t *testing.T) {
	files, err := filepath.Glob("../../test/corpus/*/vm.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no VMs: %v", err)
	}
	now := metav1.NewTime(time.Now().Truncate(time.Second))
	for _, file := range files {
		raw, err := os.ReadFile(file)
		vm := &v1.VirtualMachine{}
		if err == nil {
			err = yaml.Unmarshal(raw, vm)
		}
		if err != nil {
			t.Fatal(file, err)
		}
		vm.TypeMeta = metav1.TypeMeta{APIVersion: v1.GroupVersion.String(), Kind: v1.VirtualMachineGroupVersionKind.Kind}
		vm.UID, vm.ResourceVersion, vm.CreationTimestamp, vm.DeletionTimestamp = "1", "7", now, &now
		vm.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl", Time: &now, FieldsV1: metav1.NewFieldsV1(`{"f:spec":{}}`)}}
		vm.Status = v1.VirtualMachineStatus{PrintableStatus: v1.VirtualMachineStatusStopped, Conditions: []v1.VirtualMachineCondition{{LastTransitionTime: now}}}
		stored, err := json.Marshal(vm)
		if err != nil {
			t.Fatal(file, err)
		}
		sameInCache(t, file, stored)
		if decoded := decodeVM(stored); decoded == nil || decoded.UID != "1" || decoded.ManagedFields != nil {
			t.Errorf("%s: the informer's decoder leaves it to client-go's: %+v", file, decoded)
		}
	}
}

// TestInformerReadsOthers: what is no VM, or not as it should be, is read as client-go reads it.
func TestInformerReadsOthers(t *testing.T) {
	const vm = `{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", `
	for why, raw := range map[string]string{
		"a bookmark":               vm + `"metadata": {"resourceVersion": "9", "annotations": {"k8s.io/initial-events-end": "true"}}, "spec": {"template": null}}`,
		"an error":                 `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "too old", "reason": "Expired", "code": 410}`,
		"another kind":             `{"kind": "VirtualMachineInstance", "apiVersion": "kubevirt.io/v1", "metadata": {"name": "a"}}`,
		"names in other letters":   vm + `"Metadata": {"name": "a"}, "spec": {"runstrategy": "Always"}}`,
		"a name twice":             vm + `"metadata": {"name": "a", "name": "b"}, "spec": {"template": {}}}`,
		"fields that nobody knows": vm + `"metadata": {"name": "a", "new": [1]}, "spec": {"new": {"template": 1}}}`,
		"a spec that is no object": vm + `"metadata": {"name": "a"}, "spec": 1}`,
		"a label that is a number": vm + `"metadata": {"name": "a", "labels": {"a": 1}}}`,
		"no JSON":                  `{"kind": `,
		"nothing":                  ``,
	} {
		sameInCache(t, why, []byte(raw))
	}
}
