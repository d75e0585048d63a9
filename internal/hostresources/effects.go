package hostresources

import (
	"cmp"
	"encoding/json"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Effect is a field that has no effect on a bare machine. Unsupported fields that define the guest's machine are not in this table: Bind or the renderer
// refuses them.
type Effect struct {
	// Field is the path below spec of a VMI, with [] for any position.
	Field string
	// Reason completes the sentence that begins with the path.
	Reason string
	// unless is the value of the field, as JSON, that is equal to leaving it out.
	unless string
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

// Effects returns the fields that have no effect on a bare machine.
func Effects() []Effect {
	return []Effect{
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
		{Field: "volumes[].containerDisk.imagePullPolicy", Reason: pullReason, unless: `"IfNotPresent"`},
		{Field: "domain.firmware.kernelBoot.container.imagePullSecret", Reason: pullReason},
		{Field: "domain.firmware.kernelBoot.container.imagePullPolicy", Reason: pullReason, unless: `"IfNotPresent"`},
	}
}

// Warnings returns a warning for each field of a VMI that has no effect on a bare machine, in the order of the table and of positions.
func Warnings(vmi *v1.VirtualMachineInstance) (warnings []string, err error) {
	raw, err := json.Marshal(vmi.Spec)
	if err != nil {
		return nil, err
	}
	var spec map[string]any
	if err := json.Unmarshal(raw, &spec); err != nil {
		return nil, err
	}
	for _, e := range Effects() {
		e.eachUse(spec, strings.Split(e.Field, "."), field.NewPath("spec"), func(at *field.Path) { warnings = append(warnings, at.String()+" "+e.Reason) })
	}
	return warnings, nil
}

// eachUse calls found with the path of each use of the field below a node.
func (e Effect) eachUse(node any, path []string, at *field.Path, found func(*field.Path)) {
	if len(path) == 0 {
		value, err := json.Marshal(node)
		if asks := string(value) != cmp.Or(e.unless, "null"); err == nil && asks {
			found(at)
		}
		return
	}
	object, _ := node.(map[string]any)
	name, list := strings.CutSuffix(path[0], "[]")
	value, there := object[name]
	if !there {
		return
	}
	if !list {
		e.eachUse(value, path[1:], at.Child(name), found)
		return
	}
	items, _ := value.([]any)
	for i, item := range items {
		e.eachUse(item, path[1:], at.Child(name).Index(i), found)
	}
}
