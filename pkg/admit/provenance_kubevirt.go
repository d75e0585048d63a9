package admit

import (
	"crypto/sha1" //nolint:gosec // KubeVirt's UUIDs of names are of this hash
	"encoding/json"
	"fmt"
	"regexp"
	"slices"

	"github.com/kilnvm/kiln/pkg/internal/leaves"
	corev1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"
)

// If KubeVirt runs the guests, its mutating webhook writes firmware, machine type, architecture and an annotation into the template of a VM. They then look as
// if its owner had written them. Three kinds of evidence tell who wrote a field, the strongest first: the managers of fields (an API server notes them before
// it calls webhooks, so that a field that a webhook wrote has no manager), the manifest that 'kubectl apply' noted, and the values that KubeVirt sets.
// KubeVirt v1.9: pkg/virt-api/webhooks/mutating-webhook/mutators/vm-mutator.go, SetVirtualMachineDefaults (pkg/defaults), and the controller of firmware
// (pkg/virt-controller/watch/vm/firmware.go).

// FromKubeVirt is the origin of what KubeVirt wrote into a VM.
const FromKubeVirt = "KubeVirt"

const noteFirmware = "KubeVirt gives the VM a random firmware UUID and serial number when it is created, if they are not set"

// kubeVirtFill is a field of a template that KubeVirt fills.
type kubeVirtFill struct {
	// path is the path of the leaf in the VMI, and steps lead to the field in the template.
	path  string
	steps []string
	// usual reports whether KubeVirt sets such a value. It also returns the preference from which KubeVirt takes the value, or nil.
	usual func(value string, vm *v1.VirtualMachine, in Input) (bool, *Origin)
	// configured means that the configuration of the cluster decides the value, and may have changed since KubeVirt wrote the field.
	configured bool
}

var kubeVirtFills = []kubeVirtFill{
	{path: "spec.domain.firmware.uuid", steps: []string{"spec", "domain", "firmware", "uuid"}, usual: usualUUID},
	{path: "spec.domain.firmware.serial", steps: []string{"spec", "domain", "firmware", "serial"}, usual: usualSerial},
	{path: "spec.domain.machine.type", steps: []string{"spec", "domain", "machine", "type"}, usual: usualMachine, configured: true},
	{path: "spec.architecture", steps: []string{"spec", "architecture"}, usual: usualArchitecture, configured: true},
	{path: "metadata.annotations[" + v1.PciTopologyVersionAnnotation + "]", steps: []string{"metadata", "annotations", v1.PciTopologyVersionAnnotation},
		usual: usualTopology},
}

// randomUUID matches a UUID of version 4.
var randomUUID = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

func usualUUID(value string, vm *v1.VirtualMachine, _ Input) (bool, *Origin) {
	return randomUUID.MatchString(value) || value == uuidOfName(vm.Name), nil
}

func usualSerial(value string, _ *v1.VirtualMachine, _ Input) (bool, *Origin) {
	return randomUUID.MatchString(value), nil
}

func usualMachine(value string, vm *v1.VirtualMachine, in Input) (bool, *Origin) {
	if p := in.Set.Preference; p != nil && p.Spec.Machine != nil && p.Spec.Machine.PreferredMachineType == value {
		return true, preferenceOrigin(in)
	}
	return value == in.Cluster.Defaults.Machines[vm.Spec.Template.Spec.Architecture], nil
}

func usualArchitecture(value string, _ *v1.VirtualMachine, in Input) (bool, *Origin) {
	if p := in.Set.Preference; p != nil && p.Spec.PreferredArchitecture != nil && *p.Spec.PreferredArchitecture == value {
		return true, preferenceOrigin(in)
	}
	return value == in.clusterDefaults().Architecture, nil
}

func usualTopology(value string, _ *v1.VirtualMachine, _ Input) (bool, *Origin) {
	return value == v1.PciTopologyVersionV3, nil
}

// preferenceOrigin returns the preference of an input as an origin.
func preferenceOrigin(in Input) *Origin {
	origin := (&run{in: in}).preferenceOrigin()
	return &origin
}

// kubeVirtNames is the namespace of the UUIDs that KubeVirt derives from the names of VMs without a UUID (RFC 9562, version 5).
var kubeVirtNames = [16]byte{0x6a, 0x1a, 0x24, 0xa1, 0x40, 0x61, 0x46, 0x07, 0x8b, 0xf4, 0xa3, 0x96, 0x3d, 0x0c, 0x58, 0x95}

func uuidOfName(name string) string {
	b := sha1.Sum(append(kubeVirtNames[:], name...)) //nolint:gosec // see above
	b[6] = b[6]&0x0f | 0x50
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:16])
}

// ascribeToKubeVirt sets the origin of values that KubeVirt wrote into a stored VM. vmi is the VMI of the VM before stage 1.
func (h history) ascribeToKubeVirt(vmi *v1.VirtualMachineInstance, vm *v1.VirtualMachine, in Input) {
	if !in.Cluster.Limits.KubeVirtGuests {
		return
	}
	for _, l := range guestLeaves(vmi) {
		at := slices.IndexFunc(kubeVirtFills, func(f kubeVirtFill) bool { return f.path == l.Path })
		if text, isText := textOf(l); at >= 0 && isText {
			h[l.Key] = noted{l.Text(), kubeVirtFills[at].originIn(text, vm, in)}
		}
	}
}

// textOf returns the text of a leaf whose type is a kind of string, such as types.UID.
func textOf(l leaves.Leaf) (text string, ok bool) {
	return text, json.Unmarshal([]byte(l.Text()), &text) == nil
}

// originIn returns who wrote a field into a VM: KubeVirt, the user, or one of them.
func (f kubeVirtFill) originIn(value string, vm *v1.VirtualMachine, in Input) Origin {
	usual, because := f.usual(value, vm, in)
	certain := Origin{Kind: FromKubeVirt, Because: because}
	either := Origin{Kind: FromKubeVirt, Or: &Origin{Kind: FromUser}}
	switch writer := f.writerIn(vm); {
	case writer == byUser:
		return Origin{Kind: FromUser}
	case writer == byKubeVirt, f.path == kubeVirtFills[0].path && value == uuidOfName(vm.Name):
		return certain
	// Kiln's webhook expands templates, too, and then writes machine type and architecture.
	case writer == byWebhook && usual && (!f.configured || in.Cluster.Policy == v1.Reference):
		return certain
	case writer == byWebhook, usual, f.configured:
		return either
	}
	return Origin{Kind: FromUser}
}

// writer is who wrote a field, as far as the metadata of the VM show.
type writer int

const (
	unknownWriter writer = iota
	byUser
	byKubeVirt
	byWebhook
)

// kubeVirtManagers are the field managers of KubeVirt's processes, which are the beginnings of their user agents.
var kubeVirtManagers = []string{"virt-controller", "virt-api", "virt-operator"}

// writerIn returns who wrote a field by metadata.managedFields, which 'kubectl get -o yaml' omits, else by the annotation of 'kubectl apply'.
func (f kubeVirtFill) writerIn(vm *v1.VirtualMachine) writer {
	path, found := append([]string{"spec", "template"}, f.steps...), unknownWriter
	for _, entry := range vm.ManagedFields {
		var fields map[string]any
		if entry.Subresource != "" || entry.FieldsV1 == nil || json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) != nil || !managesField(fields, path[:1]) {
			continue
		}
		switch {
		case !managesField(fields, path):
			found = max(found, byWebhook)
		case slices.Contains(kubeVirtManagers, entry.Manager):
			return byKubeVirt
		default:
			return byUser
		}
	}
	var applied map[string]any
	text := vm.Annotations[corev1.LastAppliedConfigAnnotation]
	if found == unknownWriter && json.Unmarshal([]byte(text), &applied) == nil && hasField(applied, path) {
		return byUser
	}
	return found
}

// managesField reports whether an entry of managedFields has a field, or a whole object around the field.
func managesField(fields map[string]any, path []string) bool {
	for _, step := range path {
		below, isObject := fields["f:"+step].(map[string]any)
		if !isObject || len(below) == 0 {
			return isObject
		}
		fields = below
	}
	return true
}

// hasField reports whether a document has a field.
func hasField(document map[string]any, path []string) bool {
	for i, step := range path {
		value, found := document[step]
		if !found || i == len(path)-1 {
			return found
		}
		if document, found = value.(map[string]any); !found {
			return false
		}
	}
	return false
}

// addKubeVirtFills sets the origin of values that KubeVirt will write into a VM that is not stored yet, and adds a note about values that are random.
func (e *Explanation) addKubeVirtFills(vm *v1.VirtualMachine, in Input) {
	if !in.Cluster.Limits.KubeVirtGuests || vm.UID != "" {
		return
	}
	for i := range e.Fields {
		fact := &e.Fields[i]
		if fact.Origin.Kind == FromDefault && slices.ContainsFunc(kubeVirtFills, func(f kubeVirtFill) bool { return f.path == fact.Path }) {
			fact.Origin = Origin{Kind: FromKubeVirt}
		}
	}
	if firmware := vm.Spec.Template.Spec.Domain.Firmware; firmware == nil || firmware.UUID == "" || firmware.Serial == "" {
		e.Notes = append(e.Notes, noteFirmware)
	}
}
