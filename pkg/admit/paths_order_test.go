package admit

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/pkg/config"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// TestOrdered: errors are in the order of the fields, whatever rules found them first. Errors at one field keep their order.
func TestOrdered(t *testing.T) {
	t.Parallel()
	want := []string{
		"metadata.labels[a]", "metadata.labels[b.c/d]", "spec", "spec.runStrategy", "spec.instancetype", "spec.template.metadata.labels[a]",
		"spec.template.spec.domain", "spec.template.spec.domain.resources.requests.cpu", "spec.template.spec.domain.resources.requests.memory",
		"spec.template.spec.domain.resources.limits", "spec.template.spec.domain.cpu.cores", "spec.template.spec.domain.devices.disks",
		"spec.template.spec.domain.devices.disks[2].disk.bus", "spec.template.spec.domain.devices.disks[2].cdrom.bus",
		"spec.template.spec.domain.devices.disks[10].name", "spec.template.spec.domain.devices.interfaces[0].name",
		"spec.template.spec.domain.devices.interfaces[0].masquerade", "spec.template.spec.domain.devices.interfaces[0].ports",
		"spec.template.spec.volumes[0].name", "spec.template.spec.volumes[0].emptyDisk", "spec.template.spec.networks[0].pod", "spec.template.spec.none",
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		var errs field.ErrorList
		for _, i := range random.Perm(len(want)) {
			errs = append(errs, &field.Error{Field: want[i], Detail: "first"}, &field.Error{Field: want[i], Detail: "second"})
		}
		var got []string
		for i, err := range sortByField(errs, reflect.TypeFor[v1.VirtualMachine]()) {
			if i%2 == 0 {
				got = append(got, err.Field)
			}
			if first := err.Detail == "first"; first != (i%2 == 0) {
				t.Errorf("%s: %s", err.Field, err.Detail)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("-want +got:\n%s", diff)
		}
	}
}

// TestVerdictsAreOrdered: the rule for subdomains judges before those for tolerations, whose errors come first.
func TestVerdictsAreOrdered(t *testing.T) {
	t.Parallel()
	vm := &v1.VirtualMachine{}
	err := yaml.UnmarshalStrict([]byte("{runStrategy: Halted, template: {spec: {domain: {memory: {guest: 1Gi}, machine: {type: pc}}, subdomain: a.b, "+
		"tolerations: [{key: a, operator: Exists, effect: Never}]}}}"), &vm.Spec)
	if err != nil {
		t.Fatal(err)
	}
	explicit, verdict := VM(vm, nil, Input{Cluster: config.Default()})
	want := []string{"spec.template.spec.domain.machine.type", "spec.template.spec.tolerations[0].effect", "spec.template.spec.subdomain"}
	var ofVM, ofVMI []string
	for _, err := range verdict.Errors {
		ofVM = append(ofVM, err.Field)
	}
	for _, err := range Judge(explicit, Input{Cluster: config.Default()}).Errors {
		ofVMI = append(ofVMI, "spec.template."+err.Field)
	}
	if diff := cmp.Diff(want, ofVM); diff != "" {
		t.Errorf("a VM (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, ofVMI); diff != "" {
		t.Errorf("a VMI (-want +got):\n%s", diff)
	}
}
