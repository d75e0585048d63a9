package validate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/pkg/config"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: the requirements of an NVIDIA Grace GPU (domain.devices.gpus, hostDevices, machine, cpu, annotations).
// These GPUs share memory coherently with the host's CPUs, which works only for an arm64 VMI that mirrors the host's PCI and NUMA layout.
// KubeVirt has these rules in validateGraceIOVirtualization and validateGraceIOVirtualizationAnnotations.

var graceRules = []metadataRule{
	{grace, []Rule{
		{Name: "hostdevices/grace-gate", MendedBy: byInstancetype, Since: 9},
		{Name: "hostdevices/grace-ambiguous", MendedBy: byInstancetype, Since: 9},
		{Name: "hostdevices/grace-arm64", MendedBy: byInstancetype, Since: 9},
		{Name: "hostdevices/grace-machine", MendedBy: byInstancetype, Since: 9},
		{Name: "hostdevices/grace-dedicated", MendedBy: byInstancetype, Since: 9},
		{Name: "hostdevices/grace-needs-gates", MendedBy: byInstancetype, Since: 9},
		{Name: "hostdevices/grace-annotations", MendedBy: byInstancetype, Since: 9},
	}},
}

// graceIDs are the PCI IDs of GPUs attached to a Grace CPU, as Linux's nvgrace-gpu driver lists them: GH200, GB200, GB300.
var graceIDs = []string{"10de:2342", "10de:2345", "10de:2348", "10de:2941", "10de:31c2"}

// graceOf reports whether permittedHostDevices uses a resource name for such GPUs, and whether for other devices too.
func graceOf(resource string, limits config.Limits) (is, others bool) {
	if limits.PermittedHostDevices == nil || resource == "" {
		return false, false
	}
	for _, device := range limits.PermittedHostDevices.PciHostDevices {
		if device.ResourceName == resource {
			// Which device of such a name a VMI gets is known only when it starts.
			known := slices.Contains(graceIDs, strings.ToLower(device.PCIVendorSelector))
			is, others = is || known, others || !known
		}
	}
	return is, others
}

// grace judges a device only where permittedHostDevices maps its resource name to such a GPU: nothing in the VMI says what the device
// is.
func grace(vmi *v1.VirtualMachineInstance, limits config.Limits, path *field.Path) (errs field.ErrorList) {
	const gate = "GraceIOVirtualization"
	spec, at := &vmi.Spec, path.Child("spec")
	// given: the VMI asks for such a GPU. served: the feature gate is on, so that the other requirements apply.
	given, served := false, false
	for _, d := range append(gpuList(spec, at), hostDeviceList(spec, at)...) {
		is, others := graceOf(d.deviceName, limits)
		if !is {
			continue
		}
		given = true
		at := d.at.Child("deviceName")
		if off := gated(limits, gate, at).WithOrigin("hostdevices/grace-gate"); len(off) > 0 {
			errs = append(errs, off...)
			continue
		}
		served = true
		if others {
			errs = append(errs, field.Invalid(at, d.deviceName,
				"permittedHostDevices uses this resource name for NVIDIA Grace GPUs and for other devices: give each kind its own name").
				WithOrigin("hostdevices/grace-ambiguous"))
		}
	}
	if served {
		errs = append(errs, graceGuest(spec, limits, at)...)
	}
	if given {
		errs = append(errs, graceAnnotations(vmi, path)...)
	}
	return errs
}

// graceAnnotations are refused whether or not the feature gate is on.
func graceAnnotations(vmi *v1.VirtualMachineInstance, path *field.Path) (errs field.ErrorList) {
	for _, annotation := range []string{v1.PlacePCIDevicesOnRootComplex, v1.DisablePCIHole64} {
		if vmi.Annotations[annotation] == "true" {
			errs = append(errs, field.Forbidden(path.Child("metadata", "annotations").Key(annotation),
				"an NVIDIA Grace GPU needs its own root port and the 64-bit PCI hole: remove the annotation").WithOrigin("hostdevices/grace-annotations"))
		}
	}
	return errs
}

// graceGuest requires the machine on which such a GPU works. An empty machine type is legal, because arm64's default is 'virt'.
func graceGuest(spec *v1.VirtualMachineInstanceSpec, limits config.Limits, at *field.Path) (errs field.ErrorList) {
	if spec.Architecture != arm64 {
		errs = append(errs, field.Invalid(at.Child("architecture"), spec.Architecture, "an NVIDIA Grace GPU needs 'arm64'").WithOrigin("hostdevices/grace-arm64"))
	}
	if m := spec.Domain.Machine; m != nil && m.Type != "" && !strings.HasPrefix(m.Type, "virt") {
		errs = append(errs, field.Invalid(at.Child("domain", "machine", "type"), m.Type, "an NVIDIA Grace GPU needs 'virt'").WithOrigin("hostdevices/grace-machine"))
	}
	if !dedicated(spec) {
		cpu := at.Child("domain", "cpu")
		if spec.Domain.CPU != nil {
			cpu = cpu.Child("dedicatedCpuPlacement")
		}
		errs = append(errs, field.Required(cpu, "an NVIDIA Grace GPU needs dedicatedCpuPlacement").WithOrigin("hostdevices/grace-dedicated"))
	}
	for _, gate := range []string{"PCINUMAAwareTopology", "IOMMUFD"} {
		if !limits.Gates.Enabled(gate) {
			errs = append(errs, field.Forbidden(at.Child("domain", "devices"),
				fmt.Sprintf("an NVIDIA Grace GPU needs feature gate '%s', which is off in this cluster", gate)).WithOrigin("hostdevices/grace-needs-gates"))
		}
	}
	return errs
}
