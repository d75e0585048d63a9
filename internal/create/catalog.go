package create

import (
	"github.com/kilnvm/kiln/pkg/instancetype"
	"github.com/kilnvm/kiln/pkg/validate"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
)

// This file sets the fields of instancetypes and preferences for which virtctl has flags. The webhook's rules judge the result here; virtctl leaves them
// to the cluster.

// Instancetype contains the flags of 'create instancetype'.
type Instancetype struct {
	Name, Namespace string
	Namespaced      bool
	CPU             uint32
	Memory          string
	GPU, HostDevice []string
	IOThreadsPolicy string
}

// Build returns the manifest. The namespaced and the cluster-wide kind have one schema.
// It fails if a quantity, a policy or a device cannot be parsed. If the webhook's rules refuse the manifest, Build returns both the manifest and the error.
func (f Instancetype) Build() (*v1beta1.VirtualMachineInstancetype, error) {
	if err := checkName(f.Name); err != nil {
		return nil, err
	}
	memory, err := resource.ParseQuantity(f.Memory)
	if err != nil {
		return nil, flagError("memory", "'%s': %s", f.Memory, validate.NoQuantity(f.Memory))
	}
	made := &v1beta1.VirtualMachineInstancetype{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1beta1.SchemeGroupVersion.String(), Kind: instancetype.Kinds.Cluster},
		ObjectMeta: metav1.ObjectMeta{Name: f.Name},
		Spec: v1beta1.VirtualMachineInstancetypeSpec{
			CPU: v1beta1.CPUInstancetype{Guest: f.CPU}, Memory: v1beta1.MemoryInstancetype{Guest: memory},
		},
	}
	if f.Namespaced {
		made.Kind, made.Namespace = instancetype.Kinds.Namespaced, f.Namespace
	}
	switch policy := v1.IOThreadsPolicy(f.IOThreadsPolicy); policy {
	case "":
	case v1.IOThreadsPolicyAuto, v1.IOThreadsPolicyShared:
		made.Spec.IOThreadsPolicy = &policy
	default:
		return nil, flagError("iothreadspolicy", "'%s' must be '%s' or '%s'", policy, v1.IOThreadsPolicyAuto, v1.IOThreadsPolicyShared)
	}
	for _, text := range f.GPU {
		name, device, err := parseDevice("gpu", text)
		if err != nil {
			return nil, err
		}
		made.Spec.GPUs = append(made.Spec.GPUs, v1.GPU{Name: name, DeviceName: device})
	}
	for _, text := range f.HostDevice {
		name, device, err := parseDevice("hostdevice", text)
		if err != nil {
			return nil, err
		}
		made.Spec.HostDevices = append(made.Spec.HostDevices, v1.HostDevice{Name: name, DeviceName: device})
	}
	return made, validate.Instancetype(&made.Spec, field.NewPath("spec")).ToAggregate()
}

// parseDevice parses 'name:NAME,devicename:RESOURCE'.
// RESOURCE is the name of an extended resource. KubeVirt's permittedHostDevices must list it, which only the cluster can check.
func parseDevice(flag, text string) (name, resource string, err error) {
	p, err := parseParameters(flag, text, "name", "devicename")
	if err == nil {
		err = p.requireAll("name", "devicename")
	}
	return p.values["name"], p.values["devicename"], err
}

// Preference contains the flags of 'create preference'.
type Preference struct {
	Name, Namespace                              string
	Namespaced                                   bool
	CPUTopology, MachineType, VolumeStorageClass string
}

// Build returns the manifest. The namespaced and the cluster-wide kind have one schema.
// If the webhook's rules refuse the manifest, Build returns both the manifest and the error.
func (f Preference) Build() (*v1beta1.VirtualMachinePreference, error) {
	if err := checkName(f.Name); err != nil {
		return nil, err
	}
	made := &v1beta1.VirtualMachinePreference{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1beta1.SchemeGroupVersion.String(), Kind: instancetype.PreferenceKinds.Cluster},
		ObjectMeta: metav1.ObjectMeta{Name: f.Name},
	}
	if f.Namespaced {
		made.Kind, made.Namespace = instancetype.PreferenceKinds.Namespaced, f.Namespace
	}
	if f.VolumeStorageClass != "" {
		made.Spec.Volumes = &v1beta1.VolumePreferences{PreferredStorageClassName: f.VolumeStorageClass}
	}
	if f.MachineType != "" {
		made.Spec.Machine = &v1beta1.MachinePreferences{PreferredMachineType: f.MachineType}
	}
	if f.CPUTopology != "" {
		made.Spec.CPU = &v1beta1.CPUPreferences{PreferredCPUTopology: new(v1beta1.PreferredCPUTopology(f.CPUTopology))}
	}
	return made, validate.Preference(&made.Spec, field.NewPath("spec")).ToAggregate()
}
