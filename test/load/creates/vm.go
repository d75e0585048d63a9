package creates

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
)

// Kind is what the VMs of a run have in common.
type Kind struct {
	Namespace string
	// Instancetype and Preference are names of cluster-wide objects; an empty one is not set.
	Instancetype, Preference string
	Strategy                 v1.VirtualMachineRunStrategy
}

// VM returns a VM of that kind as a user would write it: a container disk, cloud-init, and one interface.
func (k Kind) VM(name string) *v1.VirtualMachine {
	vm := &v1.VirtualMachine{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1.GroupVersion.String(), Kind: v1.VirtualMachineGroupVersionKind.Kind},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: k.Namespace, Labels: map[string]string{"app.kubernetes.io/name": name}},
		Spec: v1.VirtualMachineSpec{
			RunStrategy: &k.Strategy,
			Template: &v1.VirtualMachineInstanceTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"kubevirt.io/domain": name}}, Spec: guestSpec(name),
			},
		},
	}
	if k.Instancetype != "" {
		vm.Spec.Instancetype = &v1.InstancetypeMatcher{Name: k.Instancetype}
	}
	if k.Preference != "" {
		vm.Spec.Preference = &v1.PreferenceMatcher{Name: k.Preference}
	}
	return vm
}

func guestSpec(name string) v1.VirtualMachineInstanceSpec {
	return v1.VirtualMachineInstanceSpec{
		Domain: v1.DomainSpec{Devices: v1.Devices{
			Disks:      []v1.Disk{{Name: "root"}, {Name: "cloudinit"}},
			Interfaces: []v1.Interface{{Name: "default", InterfaceBindingMethod: v1.InterfaceBindingMethod{Masquerade: &v1.InterfaceMasquerade{}}}},
		}},
		Networks: []v1.Network{{Name: "default", NetworkSource: v1.NetworkSource{Pod: &v1.PodNetwork{}}}},
		Volumes: []v1.Volume{
			{Name: "root", VolumeSource: v1.VolumeSource{ContainerDisk: &v1.ContainerDiskSource{
				Image: "registry.example/disks/debian:13", ImagePullPolicy: corev1.PullIfNotPresent,
			}}},
			{Name: "cloudinit", VolumeSource: v1.VolumeSource{CloudInitNoCloud: &v1.CloudInitNoCloudSource{
				UserData: "#cloud-config\nhostname: " + name + "\n",
			}}},
		},
	}
}
