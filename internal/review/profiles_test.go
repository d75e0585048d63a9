package review

import (
	"strings"
	"testing"

	"github.com/kilnvm/kiln/internal/pin"
	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/pkg/config"
	v1 "kubevirt.io/api/core/v1"
)

const (
	unreadable = `{apiVersion: kilnvm.io/v1alpha1, kind: GuestProfile, metadata: {name: broken, namespace: team}, ` +
		`spec: {selector: {}, template: {spec: {domain: 7}}}}`
	graceful = `{apiVersion: kilnvm.io/v1alpha1, kind: GuestProfile, metadata: {name: graceful, namespace: team}, ` +
		`spec: {selector: {}, template: {spec: {terminationGracePeriodSeconds: 7}}}}`
	plain = `{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: a, namespace: team}, ` +
		`spec: {runStrategy: Halted, template: {spec: {domain: {memory: {guest: 1Gi}, devices: {}}}}}}`
)

// TestUnreadableProfile: a profile that cannot be read refuses what is new, as the mistake of a user and at a path of the object.
func TestUnreadableProfile(t *testing.T) {
	r := Reviewer{Resolver: resolve.Resolver{Cached: reading(t, untyped(t, unreadable))}, Configuration: config.Default}
	vm, err := r.ReviewVM(t.Context(), parsed[v1.VirtualMachine](t, plain), nil, Asker{})
	if err != nil || vm.Allowed() || vm.Errors[0].Field != "spec.template.metadata.labels" || !strings.Contains(vm.Errors[0].Detail, "'broken'") {
		t.Errorf("a VM: %v, %v", vm.Errors, err)
	}
	vmi := parsed[v1.VirtualMachineInstance](t, `{metadata: {name: a, namespace: team}, spec: {domain: {memory: {guest: 1Gi}, devices: {}}}}`)
	reviewed, err := r.ReviewVMI(t.Context(), vmi, Asker{})
	if err != nil || reviewed.Allowed() || reviewed.Errors[0].Field != "metadata.labels" {
		t.Errorf("a VMI: %v, %v", reviewed.Errors, err)
	}
}

// TestExpandKeepsProfiles: an expanded template holds what the instancetype was. What the VM gets without naming it stays pinned, as its presets do.
func TestExpandKeepsProfiles(t *testing.T) {
	profile, size := untyped(t, graceful), untyped(t, `{apiVersion: instancetype.kubevirt.io/v1beta1, kind: VirtualMachineInstancetype, `+
		`metadata: {name: s, namespace: team}, spec: {cpu: {guest: 1}, memory: {guest: 1Gi}}}`)
	r := Reviewer{Resolver: resolve.Resolver{Cached: reading(t, profile, size)}, Configuration: func() config.Cluster {
		cluster := config.Default()
		cluster.Policy = v1.Expand
		return cluster
	}}
	vm := parsed[v1.VirtualMachine](t, strings.Replace(plain, "memory: {guest: 1Gi}, ", "", 1))
	vm.Spec.Instancetype = &v1.InstancetypeMatcher{Name: "s", Kind: "VirtualMachineInstancetype"}
	vm.Annotations = map[string]string{"kilnvm.io/pins": `{"presets":[],"profiles":["` + stored(t, profile).GetName() + `"]}`}
	r.Resolver.Cached = reading(t, profile, size, stored(t, profile))
	reviewed, err := r.ReviewVM(t.Context(), vm, nil, Asker{})
	if err != nil || !reviewed.Allowed() || *reviewed.Explicit.Spec.TerminationGracePeriodSeconds != 7 {
		t.Fatalf("%v, %v", reviewed.Errors, err)
	}
	made, drafts := reviewed.Stored()
	if pins := pin.Read(made); made.Spec.Instancetype != nil || len(pins.Profiles) != 1 || pins.Instancetype != "" || len(drafts) > 0 {
		t.Errorf("pins %+v, drafts %v, instancetype %v", pins, drafts, made.Spec.Instancetype)
	}
	if seconds := made.Spec.Template.Spec.TerminationGracePeriodSeconds; seconds != nil && *seconds == 7 {
		t.Error("the template holds what the profile fills at each start")
	}
}
