package snapshot

import (
	"strconv"

	"github.com/kilnvm/kiln/pkg/pod"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Kind is the kind of an object that a VM needs.
type Kind string

// Kinds of objects that a VM needs. Resource is a resource of a device plugin, such as example.com/gpu.
const (
	Claim                 Kind = "PersistentVolumeClaim"
	Network               Kind = "NetworkAttachmentDefinition"
	Resource              Kind = "resource"
	ResourceClaim         Kind = "ResourceClaim"
	ResourceClaimTemplate Kind = "ResourceClaimTemplate"
	DeviceClass           Kind = "DeviceClass"
	Secret                Kind = "Secret"
	ConfigMap             Kind = "ConfigMap"
	ServiceAccount        Kind = "ServiceAccount"
	Revision              Kind = "ControllerRevision"
)

// Object is an object that a VM needs. Resources and DeviceClasses have no namespace. Needs does not return DeviceClasses: the caller, who reads the
// ResourceClaims, adds the classes that they name.
type Object struct {
	Kind            Kind
	Namespace, Name string
}

// Device is a part of a VM that can be left out. List is a list of the VM's spec, such as 'volumes', and Name the name in this list.
type Device struct{ List, Name string }

// The lists of devices.
const (
	volumes        = "volumes"
	networks       = "networks"
	gpus           = "gpus"
	hostDevices    = "hostDevices"
	resourceClaims = "resourceClaims"
	credentials    = "accessCredentials"
)

// Need is a field of a VM that refers to an object.
type Need struct {
	Object
	Path *field.Path
	// Device is the device that is left out if the object is missing. It is the zero value if the VM cannot start without the object.
	Device Device
}

// needList collects the needs of one VM.
type needList struct {
	namespace string
	all       []Need
}

// Needs returns the objects to which a VM refers, in the order of its fields, without the objects that the VM marks as optional.
func Needs(vm *v1.VirtualMachine) []Need {
	n := &needList{namespace: vm.Namespace}
	for _, of := range revisionsOf(vm) {
		n.all = append(n.all, Need{Object{Revision, vm.Namespace, of.name}, of.path, Device{}})
	}
	spec, at := &vm.Spec.Template.Spec, field.NewPath("spec", "template", "spec")
	n.addNetworks(spec, at)
	n.addVolumes(spec, at)
	n.addDevices(spec, at)
	if boot := spec.Domain.Firmware; boot != nil && boot.KernelBoot != nil && boot.KernelBoot.Container != nil {
		n.addNeed(Secret, boot.KernelBoot.Container.ImagePullSecret, at.Child("domain", "firmware", "kernelBoot", "container", "imagePullSecret"), Device{})
	}
	pod.VisitCredentialSecrets(spec, at, func(i int, name string, at *field.Path) { // credentials have no name: their device has their index
		n.addNeed(Secret, name, at, Device{credentials, strconv.Itoa(i)})
	})
	return n.all
}

// addNeed adds an object of the VM's namespace, if it has a name.
func (n *needList) addNeed(kind Kind, name string, at *field.Path, device Device) {
	if name != "" {
		n.all = append(n.all, Need{Object{kind, n.namespace, name}, at, device})
	}
}

func (n *needList) addNetworks(spec *v1.VirtualMachineInstanceSpec, at *field.Path) {
	for i := range spec.Networks {
		network := &spec.Networks[i]
		if !pod.HasDefinition(network) {
			continue
		}
		namespace, name := pod.NetworkAttachmentDefinition(n.namespace, network.Multus.NetworkName)
		n.all = append(n.all, Need{Object{Network, namespace, name}, at.Child("networks").Index(i).Child("multus", "networkName"), Device{networks, network.Name}})
	}
}

func (n *needList) addVolumes(spec *v1.VirtualMachineInstanceSpec, at *field.Path) {
	for i := range spec.Volumes {
		n.addVolume(&spec.Volumes[i], at.Child("volumes").Index(i))
	}
}

// addVolume adds the objects to which a volume refers. The claim of a DataVolume has the name of the DataVolume. It must exist even if the VM has a template
// for the DataVolume: a new DataVolume would not have the content of the snapshot.
func (n *needList) addVolume(of *v1.Volume, at *field.Path) {
	device, own := Device{volumes, of.Name}, func(optional *bool) bool { return optional == nil || !*optional }
	switch {
	case of.PersistentVolumeClaim != nil:
		n.addNeed(Claim, of.PersistentVolumeClaim.ClaimName, at.Child("persistentVolumeClaim", "claimName"), device)
	case of.DataVolume != nil:
		n.addNeed(Claim, of.DataVolume.Name, at.Child("dataVolume", "name"), device)
	case of.Ephemeral != nil && of.Ephemeral.PersistentVolumeClaim != nil:
		n.addNeed(Claim, of.Ephemeral.PersistentVolumeClaim.ClaimName, at.Child("ephemeral", "persistentVolumeClaim", "claimName"), device)
	case of.Secret != nil && own(of.Secret.Optional):
		n.addNeed(Secret, of.Secret.SecretName, at.Child("secret", "secretName"), device)
	case of.ConfigMap != nil && own(of.ConfigMap.Optional):
		n.addNeed(ConfigMap, of.ConfigMap.Name, at.Child("configMap", "name"), device)
	case of.ServiceAccount != nil:
		n.addNeed(ServiceAccount, of.ServiceAccount.ServiceAccountName, at.Child("serviceAccount", "serviceAccountName"), device)
	case of.ContainerDisk != nil:
		n.addNeed(Secret, of.ContainerDisk.ImagePullSecret, at.Child("containerDisk", "imagePullSecret"), device)
	case of.Sysprep != nil && of.Sysprep.Secret != nil:
		n.addNeed(Secret, of.Sysprep.Secret.Name, at.Child("sysprep", "secret", "name"), device)
	case of.Sysprep != nil && of.Sysprep.ConfigMap != nil:
		n.addNeed(ConfigMap, of.Sysprep.ConfigMap.Name, at.Child("sysprep", "configMap", "name"), device)
	case of.CloudInitNoCloud != nil:
		n.addCloudInitSecret(of.CloudInitNoCloud.UserDataSecretRef, at.Child("cloudInitNoCloud", "secretRef", "name"), device)
		n.addCloudInitSecret(of.CloudInitNoCloud.NetworkDataSecretRef, at.Child("cloudInitNoCloud", "networkDataSecretRef", "name"), device)
	case of.CloudInitConfigDrive != nil:
		n.addCloudInitSecret(of.CloudInitConfigDrive.UserDataSecretRef, at.Child("cloudInitConfigDrive", "secretRef", "name"), device)
		n.addCloudInitSecret(of.CloudInitConfigDrive.NetworkDataSecretRef, at.Child("cloudInitConfigDrive", "networkDataSecretRef", "name"), device)
	}
}

func (n *needList) addDevices(spec *v1.VirtualMachineInstanceSpec, at *field.Path) {
	devices := at.Child("domain", "devices")
	for i, d := range spec.Domain.Devices.GPUs {
		n.addResource(d.DeviceName, devices.Child(gpus).Index(i).Child("deviceName"), Device{gpus, d.Name})
	}
	for i, d := range spec.Domain.Devices.HostDevices {
		n.addResource(d.DeviceName, devices.Child(hostDevices).Index(i).Child("deviceName"), Device{hostDevices, d.Name})
	}
	for i, claim := range spec.ResourceClaims {
		device, of := Device{resourceClaims, claim.Name}, at.Child(resourceClaims).Index(i)
		if claim.ResourceClaimName != nil {
			n.addNeed(ResourceClaim, *claim.ResourceClaimName, of.Child("resourceClaimName"), device)
		}
		if claim.ResourceClaimTemplateName != nil {
			n.addNeed(ResourceClaimTemplate, *claim.ResourceClaimTemplateName, of.Child("resourceClaimTemplateName"), device)
		}
	}
}

func (n *needList) addResource(name string, at *field.Path, device Device) {
	if name != "" {
		n.all = append(n.all, Need{Object{Kind: Resource, Name: name}, at, device})
	}
}

// addCloudInitSecret adds a Secret of cloud-init.
func (n *needList) addCloudInitSecret(of *corev1.LocalObjectReference, at *field.Path, device Device) {
	if of != nil {
		n.addNeed(Secret, of.Name, at, device)
	}
}
