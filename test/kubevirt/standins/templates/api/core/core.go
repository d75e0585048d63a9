// Package core stands in for the package of kubevirt.io/virt-template-api with this name, which not every module proxy has. Kiln's tests have no templates of
// VMs. The stand-ins let KubeVirt's programs compile, and their errors say that they are stand-ins.
package core

import "errors"

// Names that KubeVirt's informers and virtctl use.
const (
	GroupName                   = "template.kubevirt.io"
	SingularResourceName        = "virtualmachinetemplate"
	PluralResourceName          = "virtualmachinetemplates"
	SingularRequestResourceName = "virtualmachinetemplaterequest"
)

// ErrStandIn is what every function of the stand-ins returns.
var ErrStandIn = errors.New("this build has a stand-in in the place of templates of VMs")
