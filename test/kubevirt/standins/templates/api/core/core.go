// Package core stands in for that of kubevirt.io/virt-template-api, which not every module proxy has. Nothing in Kiln's tests has a template of VMs: the
// stand-ins let KubeVirt's programs compile, and say what they are where one is used.
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
