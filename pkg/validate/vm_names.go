package validate

import (
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/identity"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: metadata.name of VMs and VMIs.
// The names of a pod, of labels and of sockets are made from it, and cut if they would be too long (pkg/pod/paths_names.go). The name of the domain is made
// from it, too, and not cut: guest records and tools know domains by their names. KubeVirt accepts any name, and fails when it starts the VMI.

var domainNameRules = []Rule{{Name: "metadata/domain-name", KubeVirt: KubeVirtAdmits}}

// longestDomain is in bytes: libvirt writes the domain to a file of the domain's name and '.xml.new' (virFileRewrite), and a file's name has 255 bytes.
const longestDomain = 255 - len(".xml.new")

// nameOfVM and nameOfVMI judge new objects alone: one that exists keeps its name, and must stay editable.
func nameOfVM(vm, old *v1.VirtualMachine, _ config.Limits) field.ErrorList {
	if old != nil {
		return nil
	}
	return DomainName(vm.Namespace, vm.Name)
}

func nameOfVMI(change GuestChange, _ config.Limits) field.ErrorList {
	return DomainName(change.New.Namespace, change.New.Name)
}

// DomainName judges the name of a VM or VMI by the name of its domain.
func DomainName(namespace, name string) field.ErrorList {
	over := len(identity.DomainName(namespace, name)) - longestDomain
	if over <= 0 {
		return nil
	}
	return field.ErrorList{field.TooLong(field.NewPath("metadata", "name"), name, len(name)-over).WithOrigin("metadata/domain-name")}
}
