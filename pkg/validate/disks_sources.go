package validate

import (
	"fmt"

	"github.com/kilnvm/kiln/pkg/config"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: volumes, utilityVolumes.
// A volume has one source, and the source says where it is.

// sources of a volume that are set, by field name. A new kind of source is one line here.
func sources(v *v1.Volume) (set []string) {
	for _, source := range []struct {
		name string
		set  bool
	}{
		{"hostDisk", v.HostDisk != nil},
		{"persistentVolumeClaim", v.PersistentVolumeClaim != nil},
		{"cloudInitNoCloud", v.CloudInitNoCloud != nil},
		{"cloudInitConfigDrive", v.CloudInitConfigDrive != nil},
		{"sysprep", v.Sysprep != nil},
		{"containerDisk", v.ContainerDisk != nil},
		{"ephemeral", v.Ephemeral != nil},
		{"emptyDisk", v.EmptyDisk != nil},
		{"dataVolume", v.DataVolume != nil},
		{"configMap", v.ConfigMap != nil},
		{"secret", v.Secret != nil},
		{"downwardAPI", v.DownwardAPI != nil},
		{"serviceAccount", v.ServiceAccount != nil},
		{"downwardMetrics", v.DownwardMetrics != nil},
		{"memoryDump", v.MemoryDump != nil},
		{"containerPath", v.ContainerPath != nil},
	} {
		if source.set {
			set = append(set, source.name)
		}
	}
	return set
}

// single sources are volumes of which a guest has at most one: each stands for a fact of the whole guest.
var single = []string{"serviceAccount", "downwardMetrics", "memoryDump"}

func volumes(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) (errs field.ErrorList) {
	seen, first := map[string]bool{}, map[string]int{}
	for i := range spec.Volumes {
		volume, at := &spec.Volumes[i], path.Child("volumes").Index(i)
		if seen[volume.Name] {
			errs = append(errs, field.Duplicate(at.Child("name"), volume.Name).WithOrigin("disks/volume-name-twice"))
		}
		seen[volume.Name] = true
		set := sources(volume)
		switch {
		case len(set) == 0:
			errs = append(errs, field.Required(at, "give the volume a source, such as persistentVolumeClaim").WithOrigin("disks/volume-source"))
		case len(set) > 1:
			errs = append(errs, field.Forbidden(at.Child(set[1]), "cannot be together with "+set[0]+": a volume has one source").WithOrigin("disks/volume-sources"))
		}
		for _, kind := range single {
			if !contains(set, kind) {
				continue
			}
			if other, found := first[kind]; found {
				errs = append(errs, field.Invalid(at.Child(kind), volume.Name, fmt.Sprintf("a guest has at most one such volume: volumes[%d] is one already", other)).WithOrigin("disks/volume-single"))
				continue
			}
			first[kind] = i
		}
	}
	return errs
}

func contains(list []string, wanted string) bool {
	for _, have := range list {
		if have == wanted {
			return true
		}
	}
	return false
}

// reservedPaths hold the sockets and files by which the guest itself is run.
var reservedPaths = []string{"/var/run/kubevirt", "/var/run/libvirt"}

func volumeSources(spec *v1.VirtualMachineInstanceSpec, limits config.Limits, path *field.Path) (errs field.ErrorList) {
	for i := range spec.Volumes {
		v, at := &spec.Volumes[i], path.Child("volumes").Index(i)
		required := func(value string, path ...string) {
			if value == "" {
				errs = append(errs, field.Required(at.Child(path[0], path[1:]...), "name it").WithOrigin("disks/volume-reference"))
			}
		}
		if v.DataVolume != nil {
			required(v.DataVolume.Name, "dataVolume", "name")
		}
		if v.ConfigMap != nil {
			required(v.ConfigMap.Name, "configMap", "name")
		}
		if v.Secret != nil {
			required(v.Secret.SecretName, "secret", "secretName")
		}
		if v.ServiceAccount != nil {
			required(v.ServiceAccount.ServiceAccountName, "serviceAccount", "serviceAccountName")
		}
		if v.HostDisk != nil {
			errs = append(errs, hostDisk(v.HostDisk, limits, at.Child("hostDisk"))...)
		}
		if v.DownwardMetrics != nil {
			errs = append(errs, gated(limits, "DownwardMetrics", at.Child("downwardMetrics")).WithOrigin("disks/downward-metrics-gate")...)
		}
		if v.ContainerDisk != nil {
			errs = append(errs, filePath(at.Child("containerDisk", "path"), v.ContainerDisk.Path).WithOrigin("disks/container-disk-path")...)
		}
		if v.ContainerPath != nil {
			for _, reserved := range reservedPaths {
				if under(v.ContainerPath.Path, reserved) {
					errs = append(errs, field.Forbidden(at.Child("containerPath", "path"), "'"+reserved+"' is reserved").WithOrigin("disks/container-path-reserved"))
				}
			}
		}
	}
	return errs
}

func hostDisk(disk *v1.HostDisk, limits config.Limits, at *field.Path) field.ErrorList {
	errs := gated(limits, "HostDisk", at).WithOrigin("disks/host-disk-gate")
	if disk.Path == "" {
		errs = append(errs, field.Required(at.Child("path"), "give the path of the file on the host").WithOrigin("disks/host-disk-path"))
	}
	errs = append(errs, supported(at.Child("type"), disk.Type, v1.HostDiskExists, v1.HostDiskExistsOrCreate).WithOrigin("disks/host-disk-type")...)
	if disk.Type == v1.HostDiskExists && !disk.Capacity.IsZero() {
		errs = append(errs, field.Invalid(at.Child("capacity"), disk.Capacity.String(), "is for type 'DiskOrCreate' only: a disk that exists has its size").WithOrigin("disks/host-disk-capacity"))
	}
	return errs
}

// utilityVolumes are plugged into a running guest by tools; none is there from the start.
func utilityVolumes(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) field.ErrorList {
	if spec.UtilityVolumes == nil {
		return nil
	}
	return field.ErrorList{field.Forbidden(path.Child("utilityVolumes"), "can only be added to a running guest").WithOrigin("disks/utility-volumes")}
}
