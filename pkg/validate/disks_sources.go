package validate

import (
	"fmt"
	"math"

	"github.com/kilnvm/kiln/pkg/config"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: volumes, utilityVolumes.
// A volume has one source, and the source is complete.
// KubeVirt judges sources in validateVolumes.

var volumeRules = []guestRule{
	{volumes, []Rule{
		{Name: "disks/volume-name-twice"},
		{Name: "disks/volume-source"},
		{Name: "disks/volume-sources"},
		{Name: "disks/volume-single"},
	}},
}

var volumeSourceRules = []guestRule{
	{volumeSources, []Rule{
		{Name: "disks/volume-reference"},
		{Name: "disks/downward-metrics-gate"},
		{Name: "disks/pull-policy"},
		{Name: "disks/container-disk-path"},
		{Name: "disks/empty-disk-capacity", KubeVirt: KubeVirtRefusesSome},
		{Name: "disks/container-path-reserved", KubeVirt: KubeVirtRefusesVMI},
		{Name: "disks/host-disk-gate"},
		{Name: "disks/host-disk-path"},
		{Name: "disks/host-disk-type"},
		{Name: "disks/host-disk-capacity"},
	}},
}

var utilityVolumeRules = []guestRule{
	{utilityVolumes, []Rule{
		{Name: "disks/utility-volumes"},
	}},
}

// sources returns the field names of the first two sources that are set. A new kind of source is one line here.
func sources(v *v1.Volume) (first, second string) {
	return firstTwo(
		kind{"hostDisk", v.HostDisk != nil},
		kind{"persistentVolumeClaim", v.PersistentVolumeClaim != nil},
		kind{"cloudInitNoCloud", v.CloudInitNoCloud != nil},
		kind{"cloudInitConfigDrive", v.CloudInitConfigDrive != nil},
		kind{"sysprep", v.Sysprep != nil},
		kind{"containerDisk", v.ContainerDisk != nil},
		kind{"ephemeral", v.Ephemeral != nil},
		kind{"emptyDisk", v.EmptyDisk != nil},
		kind{"dataVolume", v.DataVolume != nil},
		kind{"configMap", v.ConfigMap != nil},
		kind{"secret", v.Secret != nil},
		kind{"downwardAPI", v.DownwardAPI != nil},
		kind{"serviceAccount", v.ServiceAccount != nil},
		kind{"downwardMetrics", v.DownwardMetrics != nil},
		kind{"memoryDump", v.MemoryDump != nil},
		kind{"containerPath", v.ContainerPath != nil},
	)
}

// singleSources lists the sources that a VMI may have at most once: each describes the whole VMI.
func singleSources(v *v1.Volume) []kind {
	if v.ServiceAccount == nil && v.DownwardMetrics == nil && v.MemoryDump == nil {
		return nil
	}
	return []kind{{"serviceAccount", v.ServiceAccount != nil}, {"downwardMetrics", v.DownwardMetrics != nil}, {"memoryDump", v.MemoryDump != nil}}
}

// volumes judges names and the number of sources. A source of a newer API counts as none.
func volumes(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) (errs field.ErrorList) {
	seen, first := make(map[string]bool, len(spec.Volumes)), map[string]int{}
	for i := range spec.Volumes {
		volume := &spec.Volumes[i]
		at := func(names ...string) *field.Path { return below(path.Child("volumes"), i, names...) }
		if seen[volume.Name] {
			errs = append(errs, field.Duplicate(at("name"), volume.Name).WithOrigin("disks/volume-name-twice"))
		}
		seen[volume.Name] = true
		switch source, second := sources(volume); {
		case source == "":
			errs = append(errs, field.Required(at(), "give the volume a source, such as persistentVolumeClaim").WithOrigin("disks/volume-source"))
		case second != "":
			errs = append(errs, field.Forbidden(at(second), "cannot be combined with "+source+": a volume has one source").WithOrigin("disks/volume-sources"))
		}
		// The error is at the later volume, and names the earlier one.
		for _, k := range singleSources(volume) {
			if other, found := first[k.name]; k.set && found {
				errs = append(errs, field.Invalid(at(k.name), volume.Name,
					fmt.Sprintf("a VMI may have at most one volume of this type: volumes[%d] has it already", other)).WithOrigin("disks/volume-single"))
			} else if k.set {
				first[k.name] = i
			}
		}
	}
	return errs
}

// reservedPaths hold the sockets and files of the processes that run the VMI.
var reservedPaths = []string{"/var/run/kubevirt", "/var/run/libvirt"}

// volumeSources judges each source alone: validateVolumes, ValidateContainerDisks and validateVirtualMachineInstanceSpecVolumeDisks of
// KubeVirt. KubeVirt accepts an empty disk without capacity, and a pull policy that no pod may have.
func volumeSources(spec *v1.VirtualMachineInstanceSpec, limits config.Limits, path *field.Path) (errs field.ErrorList) {
	for i := range spec.Volumes {
		v := &spec.Volumes[i]
		at := func(names ...string) *field.Path { return below(path.Child("volumes"), i, names...) }
		unnamed := func(names ...string) {
			errs = append(errs, field.Required(at(names...), "name the object that the volume refers to").WithOrigin("disks/volume-reference"))
		}
		if v.DataVolume != nil && v.DataVolume.Name == "" {
			unnamed("dataVolume", "name")
		}
		if v.ConfigMap != nil && v.ConfigMap.Name == "" {
			unnamed("configMap", "name")
		}
		if v.Secret != nil && v.Secret.SecretName == "" {
			unnamed("secret", "secretName")
		}
		if v.ServiceAccount != nil && v.ServiceAccount.ServiceAccountName == "" {
			unnamed("serviceAccount", "serviceAccountName")
		}
		if v.HostDisk != nil {
			errs = append(errs, hostDisk(v.HostDisk, limits, at("hostDisk"))...)
		}
		if v.DownwardMetrics != nil {
			errs = append(errs, gated(limits, "DownwardMetrics", at("downwardMetrics")).WithOrigin("disks/downward-metrics-gate")...)
		}
		if v.ContainerDisk != nil && !isPullPolicy(v.ContainerDisk.ImagePullPolicy) {
			errs = append(errs, field.NotSupported(at("containerDisk", "imagePullPolicy"), v.ContainerDisk.ImagePullPolicy,
				pullPolicies).WithOrigin("disks/pull-policy"))
		}
		if v.ContainerDisk != nil && v.ContainerDisk.Path != "" {
			errs = append(errs, filePath(at("containerDisk", "path"), v.ContainerDisk.Path).WithOrigin("disks/container-disk-path")...)
		}
		// The launcher makes the disk with a number of 64 bits.
		if v.EmptyDisk != nil && absent(v.EmptyDisk.Capacity) {
			errs = append(errs, field.Required(at("emptyDisk", "capacity"), "give the size, such as '2Gi'").WithOrigin("disks/empty-disk-capacity"))
		} else if v.EmptyDisk != nil && (v.EmptyDisk.Capacity.Sign() <= 0 || v.EmptyDisk.Capacity.CmpInt64(math.MaxInt64) >= 0) {
			errs = append(errs, field.Invalid(at("emptyDisk", "capacity"), v.EmptyDisk.Capacity.String(),
				"must be greater than 0 and less than 8Ei").WithOrigin("disks/empty-disk-capacity"))
		}
		if v.ContainerPath != nil {
			for _, reserved := range reservedPaths {
				if isUnder(v.ContainerPath.Path, reserved) {
					errs = append(errs, field.Forbidden(at("containerPath", "path"),
						"'"+reserved+"' is reserved: choose another path").WithOrigin("disks/container-path-reserved"))
				}
			}
		}
	}
	return errs
}

// hostDisk needs a gate because the path is on the host: a user who may create a VM could otherwise use the files of its node.
// Without the gate other mistakes are reported, too.
func hostDisk(disk *v1.HostDisk, limits config.Limits, at *field.Path) field.ErrorList {
	errs := gated(limits, "HostDisk", at).WithOrigin("disks/host-disk-gate")
	if disk.Path == "" {
		errs = append(errs, field.Required(at.Child("path"), "give the path of the file on the host").WithOrigin("disks/host-disk-path"))
	}
	errs = append(errs, supported(at.Child("type"), disk.Type, v1.HostDiskExists, v1.HostDiskExistsOrCreate).WithOrigin("disks/host-disk-type")...)
	if disk.Type == v1.HostDiskExists && !disk.Capacity.IsZero() {
		errs = append(errs, field.Invalid(at.Child("capacity"), disk.Capacity.String(),
			"is allowed only for type 'DiskOrCreate': an existing disk has its size").WithOrigin("disks/host-disk-capacity"))
	}
	return errs
}

// utilityVolumes are hotplugged by tools; a VMI starts with none.
// In KubeVirt it is ValidateUtilityVolumesNotPresentOnCreation, which refuses an empty list as well.
func utilityVolumes(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) field.ErrorList {
	if spec.UtilityVolumes == nil {
		return nil
	}
	return field.ErrorList{field.Forbidden(path.Child("utilityVolumes"), "can only be added to a running VMI: remove it").WithOrigin("disks/utility-volumes")}
}
