// Package core stands in for that of kubevirt.io/virt-template-api. KubeVirt's informers name templates of VMs; answers has no informers, and no template.
package core

// Names that the informers use.
const (
	GroupName            = "template.kubevirt.io"
	SingularResourceName = "virtualmachinetemplate"
	PluralResourceName   = "virtualmachinetemplates"
)
