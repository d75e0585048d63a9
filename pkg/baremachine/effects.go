// Package baremachine lists the fields of an explicit VMI that every launcher on a bare machine refuses, independent of its flags and its machine, and the
// fields that have no effect on a bare machine.
package baremachine

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/pkg/mutate"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Effect is a field that has no effect on a bare machine. Unsupported fields that define the guest's machine are not in this table: they are
// refused.
type Effect struct {
	// Field is the path below spec of a VMI, with [] for any position.
	Field string
	// Reason completes the sentence that begins with the path.
	Reason string
	// unless is the value of the field, as JSON, that is equal to leaving it out.
	unless string

	steps []step
}

const (
	schedulerReason = "has no effect: launchers claim VMIs by nodeSelector alone"
	kubeletReason   = "has no effect: no kubelet probes a guest of a bare machine"
	memoryReason    = "has no effect: the guest has no pod whose memory it could add to"
	networkReason   = "has no effect: QEMU's NAT gives the guest an address of its own"
	portReason      = "has no effect: nothing reaches a guest behind QEMU's NAT; use bridge"
	dnsReason       = "has no effect: QEMU's NAT passes on the DNS servers of the machine"
	tagReason       = "has no effect: cloud-init data lists no devices"
	pluggedReason   = "has no effect: the volume is attached from start to end"
	// attestationReason has the words of pkg/pod.
	attestationReason = "has no effect: nobody asks for the measurement; the guest stays paused"
	pullReason        = "has no effect: the machine's administrator puts images below --volume-root"
)

// EffectlessFields returns the fields that have no effect on a bare machine.
func EffectlessFields() []Effect { return slices.Clone(effects) }

var effects = withSteps([]Effect{
	{Field: "accessCredentials[]", Reason: "has no effect: put keys and passwords into the cloud-init data"},
	{Field: "affinity", Reason: schedulerReason}, {Field: "tolerations", Reason: schedulerReason},
	{Field: "topologySpreadConstraints", Reason: schedulerReason}, {Field: "priorityClassName", Reason: schedulerReason},
	{Field: "schedulerName", Reason: schedulerReason},
	{Field: "dnsConfig", Reason: dnsReason}, {Field: "dnsPolicy", Reason: dnsReason}, {Field: "subdomain", Reason: dnsReason},
	{Field: "evictionStrategy", Reason: "has no effect: a guest of a bare machine is neither drained nor migrated", unless: `"None"`},
	{Field: "readinessProbe", Reason: kubeletReason}, {Field: "livenessProbe", Reason: kubeletReason},
	{Field: "serviceAccountName", Reason: "has no effect: the guest has no pod that could have an account"},
	{Field: "resourceClaims[]", Reason: "has no effect: claims are made for pods"},
	{Field: "domain.firmware.bootloader.efi.persistent", unless: "false",
		Reason: "has no effect: the variables end with the VMI; ask for pathTemplates.nvram of a HostProfile"},
	{Field: "domain.launchSecurity.sev.attestation", Reason: attestationReason},
	{Field: "domain.memory.reservedOverhead", Reason: memoryReason},
	{Field: "domain.resources.overcommitGuestOverhead", Reason: memoryReason, unless: "false"},
	{Field: "domain.devices.disks[].changedBlockTracking", Reason: "has no effect: there are no incremental backups", unless: "false"},
	{Field: "domain.devices.disks[].tag", Reason: tagReason}, {Field: "domain.devices.interfaces[].tag", Reason: tagReason},
	{Field: "domain.devices.interfaces[].ports", Reason: portReason, unless: "[]"},
	{Field: "domain.devices.interfaces[].portRanges", Reason: portReason, unless: "[]"},
	{Field: "domain.devices.interfaces[].dhcpOptions", Reason: "has no effect: no DHCP server of Kiln's answers the guest"},
	{Field: "networks[].pod.vmNetworkCIDR", Reason: networkReason}, {Field: "networks[].pod.vmIPv6NetworkCIDR", Reason: networkReason},
	{Field: "networks[].multus", Reason: "has no effect: --bridge of the launcher says what bridge the network is"},
	{Field: "volumes[].persistentVolumeClaim.readOnly", Reason: "has no effect: set readonly of the disk", unless: "false"},
	{Field: "volumes[].persistentVolumeClaim.hotpluggable", Reason: pluggedReason, unless: "false"},
	{Field: "volumes[].dataVolume.hotpluggable", Reason: pluggedReason, unless: "false"},
	{Field: "volumes[].hostDisk.shared", Reason: "has no effect: no guest is migrated; set shareable of the disk", unless: "false"},
	{Field: "volumes[].containerDisk.imagePullSecret", Reason: pullReason},
	{Field: "volumes[].containerDisk.imagePullPolicy", Reason: pullReason},
	{Field: "domain.firmware.kernelBoot.container.imagePullSecret", Reason: pullReason},
	{Field: "domain.firmware.kernelBoot.container.imagePullPolicy", Reason: pullReason, unless: `"IfNotPresent"`},
})

// NoEffect is a field of a VMI that has no effect on a bare machine.
type NoEffect struct {
	// Path starts at the VMI.
	Path *field.Path
	// Reason completes the sentence that begins with the path.
	Reason string
}

// WithoutEffect returns the fields of a VMI that have no effect on a bare machine, in the order of the table and of positions. A pull policy that is the
// default is not among them: stage 1 writes it into each container disk.
func WithoutEffect(vmi *v1.VirtualMachineInstance) (without []NoEffect) {
	spec := reflect.ValueOf(withoutDefaultPullPolicies(&vmi.Spec)).Elem()
	for i := range effects {
		effects[i].eachUse(spec, effects[i].steps, nil, func(at *field.Path) { without = append(without, NoEffect{at, effects[i].Reason}) })
	}
	return without
}

// withoutDefaultPullPolicies returns a spec in which no container disk has the pull policy that is its default. It does not change the given spec.
func withoutDefaultPullPolicies(spec *v1.VirtualMachineInstanceSpec) *v1.VirtualMachineInstanceSpec {
	changed := *spec
	changed.Volumes = slices.Clone(spec.Volumes)
	for i := range changed.Volumes {
		if disk := changed.Volumes[i].ContainerDisk; disk != nil && disk.ImagePullPolicy == mutate.DefaultPullPolicy(disk.Image) {
			less := *disk
			less.ImagePullPolicy = ""
			changed.Volumes[i].ContainerDisk = &less
		}
	}
	return &changed
}

// WarningsOf returns a sentence for each field without effect.
func WarningsOf(vmi *v1.VirtualMachineInstance) (warnings []string) {
	for _, field := range WithoutEffect(vmi) {
		warnings = append(warnings, field.Path.String()+" "+field.Reason)
	}
	return warnings
}

// step is one field of a path.
type step struct {
	name  string
	index []int
}

// withSteps returns effects with the steps of their paths, so that a judgement neither splits paths nor looks up names. It panics if there is no such field.
func withSteps(all []Effect) []Effect {
	for i := range all {
		at := reflect.TypeFor[v1.VirtualMachineInstanceSpec]()
		for _, name := range strings.Split(all[i].Field, ".") {
			name = strings.TrimSuffix(name, "[]")
			found := slices.IndexFunc(reflect.VisibleFields(at), func(f reflect.StructField) bool {
				tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
				return tag == name
			})
			if found < 0 {
				panic("no field " + all[i].Field)
			}
			of := reflect.VisibleFields(at)[found]
			all[i].steps = append(all[i].steps, step{name: name, index: of.Index})
			for at = of.Type; at.Kind() == reflect.Pointer || at.Kind() == reflect.Slice; {
				at = at.Elem()
			}
		}
	}
	return all
}

// place is a position in a VMI: a field or an element of a list. Its path is only written if the field is used.
type place struct {
	parent *place
	name   string
	index  int
}

// path returns the path of a place, which starts at the VMI.
func (p *place) path() *field.Path {
	switch {
	case p == nil:
		return field.NewPath("spec")
	case p.name == "":
		return p.parent.path().Index(p.index)
	}
	return p.parent.path().Child(p.name)
}

// eachUse calls found with the path of each use of the field below a value.
func (e *Effect) eachUse(value reflect.Value, steps []step, at *place, found func(*field.Path)) {
	for value.Kind() == reflect.Pointer && len(steps) > 0 {
		if value.IsNil() {
			return
		}
		value = value.Elem()
	}
	switch {
	case value.Kind() == reflect.Slice && (len(steps) > 0 || strings.HasSuffix(e.Field, "[]")):
		for i := range value.Len() {
			e.eachElement(value.Index(i), steps, &place{parent: at, index: i}, found)
		}
	default:
		e.eachElement(value, steps, at, found)
	}
}

// eachElement is eachUse for a value that is no list of further places.
func (e *Effect) eachElement(value reflect.Value, steps []step, at *place, found func(*field.Path)) {
	if len(steps) > 0 {
		e.eachUse(value.FieldByIndex(steps[0].index), steps[1:], &place{parent: at, name: steps[0].name}, found)
		return
	}
	if value.IsZero() || value.Kind() == reflect.Slice && value.Len() == 0 {
		return
	}
	if e.unless != "" {
		if raw, err := json.Marshal(value.Interface()); err == nil && string(raw) == e.unless {
			return
		}
	}
	found(at.path())
}
