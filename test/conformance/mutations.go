package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/internal/review"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/identity"
	"github.com/kilnvm/kiln/pkg/instancetype"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// replayMutate compares the mutated VMI. Kiln does not change the spec of a VM: what the reference wrote into the VM is compared with the VMI that the VM
// would boot, and its data volumes with the data volumes of a VM that Kiln expands.
func replayMutate(c record, cluster config.Cluster) outcome {
	switch {
	case c.Kind == "vm":
		return replayVMMutation(c, cluster)
	case c.Operation == "UPDATE":
		return replayUnchanged(c)
	}
	vmi := &v1.VirtualMachineInstance{}
	if errs := c.decodeStrictly(c.VMI, vmi); len(errs) > 0 {
		return compareVerdicts(c, c.VMI, answer{errs: errs})
	}
	reviewer, err := c.reviewerOfCase(nil, cluster)
	if err != nil {
		return differingOutcome("fault: %v", err)
	}
	reviewed, err := reviewer.ReviewVMI(context.Background(), vmi, review.Asker{Name: c.User})
	if err != nil {
		return differingOutcome("fault: %v", err)
	}
	explicit, given := reviewed.Explicit, reviewed.Merged
	if !c.Expect.Allowed {
		given = reviewed.Verdict // what the reference finds while it mutates, Kiln finds when it validates
	}
	if !given.Allowed() || !c.Expect.Allowed {
		return compareVerdicts(c, c.VMI, answer{errs: given.Errors})
	}
	want, err := recordedVMI(c)
	if err != nil {
		return differingOutcome("unreadable: %v", err)
	}
	known := explicit.DeepCopy()
	identity.Fill(known, seed)
	explicit.Spec.Domain.Firmware.UUID = known.Spec.Domain.Firmware.UUID // all that the reference invents for a VMI
	return compareGuests(c, want, explicit)
}

// replayUnchanged agrees when the reference's webhook changed nothing but a status. Kiln has none for updates of VMIs: their status
// is a subresource, which the API server keeps out of them.
func replayUnchanged(c record) outcome {
	if !c.Expect.Allowed { // all that either refuses in an update, before it judges anything, is what it cannot read
		return compareVerdicts(c, c.VMI, answer{errs: c.decodeStrictly(c.VMI, &v1.VirtualMachineInstance{})})
	}
	before, after, err := decodeBoth(c, c.VMI)
	if err != nil {
		return differingOutcome("unreadable: %v", err)
	}
	for _, object := range []map[string]any{before, after} {
		delete(object, "status")
	}
	return explainDifferences(c, differencesBetween("", after, before))
}

// decodeBoth returns the object of a case and the reference's object, untyped.
func decodeBoth(c record, raw json.RawMessage) (before, after map[string]any, err error) {
	if err := json.Unmarshal(raw, &before); err != nil {
		return nil, nil, err
	}
	return before, after, json.Unmarshal(c.storedObject(raw), &after)
}

// storedObject returns the object after the reference's answer. An answer that allows a request and has no object patched nothing, as for status updates of the
// reference's own accounts: what was sent is stored.
func (c record) storedObject(sent json.RawMessage) json.RawMessage {
	if c.patchedNothing() {
		return sent
	}
	return c.Expect.Object
}

// patchedNothing reports whether the reference allowed a request and recorded no object.
func (c record) patchedNothing() bool {
	object := bytes.TrimSpace(c.Expect.Object)
	return c.Expect.Allowed && (len(object) == 0 || string(object) == "null")
}

// seed is any identity.
const seed = "conformance"

// recordedVMI returns the reference's object without its status, whose times are placeholders.
func recordedVMI(c record) (*v1.VirtualMachineInstance, error) {
	var object struct {
		Metadata metav1.ObjectMeta
		Spec     v1.VirtualMachineInstanceSpec
	}
	err := json.Unmarshal(c.storedObject(c.VMI), &object)
	return &v1.VirtualMachineInstance{ObjectMeta: object.Metadata, Spec: object.Spec}, err
}

// replayVMMutation compares a VM. The reference's mutator writes defaults into the VM; Kiln writes them only into the VMI.
func replayVMMutation(c record, cluster config.Cluster) outcome {
	vm := &v1.VirtualMachine{}
	if errs := c.decodeStrictly(c.VM, vm); len(errs) > 0 {
		return compareVerdicts(c, c.VM, answer{errs: errs})
	}
	before, after, err := decodeBoth(c, c.VM)
	if err != nil && c.Expect.Allowed {
		return differingOutcome("unreadable: %v", err)
	}
	c.addInferred(before, after)
	given, err := judgeVM(c, vm, cluster)
	if err != nil {
		return differingOutcome("fault: %v", err)
	}
	if !c.Expect.Allowed {
		return compareVerdicts(c, c.VM, given)
	}
	if given.refused { // all that mutators have to say is that they cannot infer
		return compareVerdicts(c, c.VM, answer{errs: slices.DeleteFunc(given.errs, func(err *field.Error) bool {
			return !strings.HasSuffix(err.Field, ".inferFromVolume")
		})})
	}
	explicit := given.explicit
	if given.unknown != (unknown{}) { // the guest as it is while nobody has said what size it has
		known, err := judgeVM(c, knownOnly(vm, given.set), cluster)
		if err != nil {
			return differingOutcome("fault: %v", err)
		}
		explicit = known.explicit
	}
	identity.Fill(explicit, seed)
	guest, err := asUntyped(map[string]any{"metadata": explicit.ObjectMeta, "spec": explicit.Spec})
	if err != nil {
		return differingOutcome("unreadable: %v", err)
	}
	volumes := vm.DeepCopy().Spec.DataVolumeTemplates
	instancetype.PreferVolumes(given.set, volumes)
	filled, err := asUntyped(map[string]any{"list": volumes})
	if err != nil {
		return differingOutcome("unreadable: %v", err)
	}
	written, err := asUntyped(vm) // as the reference writes it: 1.5Gi as 1536Mi
	if err != nil {
		return differingOutcome("unreadable: %v", err)
	}
	if c.patchedNothing() {
		after = written
	}
	differing := leavesNotCarried("", lookupPath(written, "spec.template"), lookupPath(after, "spec.template"), guest)
	const templates = "spec.dataVolumeTemplates"
	differing = append(differing, leavesNotCarried("dataVolumeTemplates", lookupPath(before, templates), lookupPath(after, templates), filled["list"])...)
	return explainDifferences(c, append(differing, differentMatchers(before, after, given.set)...))
}

// knownOnly is a VM without the references that are not known.
func knownOnly(vm *v1.VirtualMachine, set instancetype.Set) *v1.VirtualMachine {
	vm = vm.DeepCopy()
	if set.Instancetype == nil {
		vm.Spec.Instancetype = nil
	}
	if set.Preference == nil {
		vm.Spec.Preference = nil
	}
	return vm
}

// matchers of a VM with the kinds that they name when they name none.
var matchers = map[string]string{"instancetype": instancetype.Kinds.Cluster, "preference": instancetype.PreferenceKinds.Cluster}

// addInferred adds to the cluster of a case what the reference inferred from a volume: cases say what is named, not what it is. An
// instancetype or preference of another name stays unknown.
// An added instancetype has one vCPU and 1Gi, because the case does not have the true spec.
func (c *record) addInferred(before, after map[string]any) {
	for matcher, kind := range matchers {
		name, _ := lookupPath(after, "spec."+matcher+".name").(string)
		if name == "" || lookupPath(before, "spec."+matcher+".inferFromVolume") == nil {
			continue
		}
		if named, _ := lookupPath(after, "spec."+matcher+".kind").(string); named != "" {
			kind = named
		}
		spec := map[string]any{}
		if matcher == "instancetype" {
			spec = map[string]any{"cpu": map[string]any{"guest": int64(1)}, "memory": map[string]any{"guest": "1Gi"}}
		}
		namespace, _ := lookupPath(before, "metadata.namespace").(string)
		if strings.Contains(kind, "Cluster") {
			namespace = ""
		}
		c.Objects = append(slices.Clip(c.Objects), unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "instancetype.kubevirt.io/v1beta1", "kind": kind, "metadata": map[string]any{"name": name, "namespace": namespace}, "spec": spec,
		}})
	}
}

// differentMatchers returns matchers of which the reference inferred something else than Kiln.
func differentMatchers(before, after map[string]any, set instancetype.Set) (list []difference) {
	got := map[string]any{"instancetype": nil, "preference": nil}
	if set.Instancetype != nil {
		got["instancetype"] = set.Instancetype.Name
	}
	if set.Preference != nil {
		got["preference"] = set.Preference.Name
	}
	for _, matcher := range slices.Sorted(maps.Keys(matchers)) {
		want := lookupPath(after, "spec."+matcher+".name")
		if kind, _ := lookupPath(after, "spec."+matcher+".kind").(string); !strings.Contains(strings.ToLower(kind), matcher) && kind != "" {
			want = nil // a label of the volume names a kind that does not exist
		}
		if lookupPath(before, "spec."+matcher+".inferFromVolume") != nil && !sameValue(want, got[matcher]) {
			list = append(list, difference{"spec." + matcher, want, got[matcher]})
		}
	}
	return list
}

// leavesNotCarried returns the leaves that the reference changed in a VM's template and that the VMI does not have as they are then. What it
// took away must be gone, though something else may stand there: an instancetype's value, for one.
func leavesNotCarried(path string, before, after, guest any) (list []difference) {
	old, _ := before.(map[string]any)
	written, isObject := after.(map[string]any)
	have, _ := guest.(map[string]any)
	if isObject {
		for _, key := range slices.Sorted(maps.Keys(unionOfKeys(old, written))) {
			list = append(list, leavesNotCarried(strings.TrimPrefix(path+"."+key, "."), old[key], written[key], have[key])...)
		}
		return list
	}
	x, _ := before.([]any)
	y, isList := after.([]any)
	z, _ := guest.([]any)
	if isList && len(x) == len(y) && len(y) <= len(z) {
		for i := range y {
			list = append(list, leavesNotCarried(fmt.Sprintf("%s[%d]", path, i), x[i], y[i], z[i])...)
		}
		return list
	}
	if arrived := sameValue(after, guest) || after == nil && !sameValue(before, guest); !sameValue(before, after) && !arrived {
		list = append(list, difference{path, after, guest})
	}
	return list
}

// isRandomValue reports whether a difference comes from values that are random in the reference. The recording has placeholders for them; Kiln derives its
// values from the VMI's identity.
func (d difference) isRandomValue() bool {
	text, _ := d.got.(string)
	return d.want == "<uuid>" && uuid.MatchString(text)
}

var uuid = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
