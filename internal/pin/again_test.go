package pin

import (
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
)

func TestWithoutAdmissionPins(t *testing.T) {
	const all = `{"instancetype":"i","preference":"p","presets":["a"],"profiles":["b"],"bases":["c"],"configuration":"d"}`
	entry := func(fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: "kubectl", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields)}
	}
	others := entry(`{"f:metadata":{"f:annotations":{".":{},"f:example.com/a":{}}},"f:spec":{"f:runStrategy":{}}}`)
	sent := entry(`{"f:metadata":{"f:annotations":{".":{},"f:kilnvm.io/pins":{}}}}`)
	lookalike := entry(`{"f:metadata":{"f:annotations":{"f:kilnvm":{"io/pins":{}},"f:kilnvmXio/pins":{}}}}`)
	for _, test := range []struct {
		name, why, pins, want string
		fields                []metav1.ManagedFieldsEntry
	}{
		{name: "written by admission", why: "labels may have changed since", pins: all, want: `{"instancetype":"i","preference":"p"}`,
			fields: []metav1.ManagedFieldsEntry{others}},
		{name: "nothing else is pinned", why: "an empty annotation would ask for a repin", pins: `{"presets":[],"configuration":"d"}`, want: "(absent)",
			fields: []metav1.ManagedFieldsEntry{others}},
		{name: "sent", why: "a VM from a backup or from Git keeps what it was", pins: all, want: all, fields: []metav1.ManagedFieldsEntry{others, sent}},
		{name: "another field", why: "the dot is no separator", pins: all, want: `{"instancetype":"i","preference":"p"}`,
			fields: []metav1.ManagedFieldsEntry{lookalike}},
		{name: "no notes", why: "nobody knows who wrote it", pins: all, want: all},
		{name: "an entry without fields", why: "it names no field", pins: all, want: `{"instancetype":"i","preference":"p"}`,
			fields: []metav1.ManagedFieldsEntry{{}}},
		{name: "a request to repin", why: "another webhook has asked for it", pins: "", want: "", fields: []metav1.ManagedFieldsEntry{others}},
		{name: "malformed", why: "its author gets a warning", pins: "{", want: "{", fields: []metav1.ManagedFieldsEntry{others}},
	} {
		t.Run(test.name, func(t *testing.T) {
			vm := &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{ManagedFields: test.fields, Annotations: map[string]string{v1alpha1.AnnotationPins: test.pins}}}
			got, found := WithoutAdmissionPins(vm).Annotations[v1alpha1.AnnotationPins]
			if !found {
				got = "(absent)"
			}
			if got != test.want {
				t.Errorf("%s: %s, want %s", test.why, got, test.want)
			}
			if vm.Annotations[v1alpha1.AnnotationPins] != test.pins {
				t.Error("what was given is modified")
			}
		})
	}
}
