package hypervisor

import (
	"encoding/xml"
	"fmt"

	"github.com/digitalocean/go-libvirt"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/identity"
	"k8s.io/apimachinery/pkg/types"
)

// A domain's name does not prove its owner: the administrator of the machine may have a domain of that name, and a VMI that is
// created again has the name of its predecessor. So each domain that Kiln defines carries a mark in its metadata, and Kiln touches
// no domain without the right mark. Tenants cannot write metadata.

// MarkNamespace is the XML namespace of the mark.
const MarkNamespace = "https://kilnvm.io/guest"

// Owner is the VMI that a domain runs, and the node that runs it.
type Owner struct {
	// Cluster is the UID of the cluster's namespace kube-system; empty in a mark that somebody has written by hand.
	Cluster   types.UID `xml:"cluster,attr,omitempty"`
	Namespace string    `xml:"namespace,attr"`
	Name      string    `xml:"name,attr"`
	UID       types.UID `xml:"uid,attr"`
	Node      string    `xml:"node,attr"`
}

// markElement is the form in which a mark is written. libvirt returns it without its namespace.
type markElement struct {
	XMLName xml.Name `xml:"https://kilnvm.io/guest guest"`
	Owner
}

// Domain is the name that stage 2 gives to the VMI's domain.
func (o Owner) Domain() string { return identity.DomainName(o.Namespace, o.Name) }

// TakenError reports that another owner's domain has the name or UUID of a VMI's domain. Its text goes to the tenant, so it names no
// other owner.
type TakenError struct {
	// Reason is ReasonNameTaken or ReasonUUIDTaken, for a condition.
	Reason string
	// By is the owner that the domain is marked with, nil if it has no mark.
	By *Owner
	// Text names what is taken, and the remedy.
	Text string
}

func (e *TakenError) Error() string { return e.Text }

// find looks up the owner's domain. The second result is false if there is none. If the domain of that name has another owner, the
// error is a *TakenError.
func find(rpc *libvirt.Libvirt, owner Owner) (libvirt.Domain, bool, error) {
	domain, err := rpc.DomainLookupByName(owner.Domain())
	if err != nil {
		return domain, false, tolerate(err, libvirt.ErrNoDomain)
	}
	by, err := marked(rpc, domain)
	switch {
	case err != nil:
		return domain, false, tolerate(err, libvirt.ErrNoDomain)
	case by == nil:
		return domain, false, &TakenError{Reason: v1alpha1.ReasonNameTaken, Text: fmt.Sprintf("this machine has a domain '%s' that Kiln did not make: "+
			"use another name, or ask the machine's administrator to rename or undefine that domain", owner.Domain())}
	case owner.UID == "" || by.UID != owner.UID:
		return domain, false, &TakenError{Reason: v1alpha1.ReasonNameTaken, By: by, Text: fmt.Sprintf("this machine still has the domain '%s' of an earlier "+
			"VirtualMachineInstance of this name; Kiln removes the domain once that object is gone from the cluster", owner.Domain())}
	}
	return domain, true, nil
}

// marked returns the owner in a domain's mark; nil for a domain that Kiln did not make. A mark that cannot be read counts as none, so that Kiln leaves
// the domain alone.
func marked(rpc *libvirt.Libvirt, domain libvirt.Domain) (*Owner, error) {
	text, err := metadata(rpc, domain, MarkNamespace)
	if err != nil || text == "" {
		return nil, err
	}
	owner := &Owner{}
	if err := xml.Unmarshal([]byte(text), owner); err != nil {
		return nil, nil //nolint:nilerr // somebody else wrote it: it is no mark
	}
	return owner, nil
}

// metadata returns the element of an XML namespace in a domain's metadata; empty if there is none.
func metadata(rpc *libvirt.Libvirt, domain libvirt.Domain, namespace string) (string, error) {
	text, err := rpc.DomainGetMetadata(domain, int32(libvirt.DomainMetadataElement), libvirt.OptString{namespace}, libvirt.DomainAffectCurrent)
	return text, tolerate(err, libvirt.ErrNoDomainMetadata)
}

// checkUUIDUnused returns a *TakenError if a domain of another name has the UUID. libvirt refuses the second domain too, but with an
// error that names the first, which may be another tenant's.
func checkUUIDUnused(rpc *libvirt.Libvirt, uuid, name string) error {
	key, err := parseUUID(uuid)
	if err != nil {
		return err
	}
	domain, err := rpc.DomainLookupByUUID(key)
	if err != nil {
		return tolerate(err, libvirt.ErrNoDomain)
	}
	if domain.Name == name {
		return nil
	}
	return &TakenError{Reason: v1alpha1.ReasonUUIDTaken, Text: fmt.Sprintf("the firmware UUID '%s' is in use by another domain of this machine: "+
		"set another spec.domain.firmware.uuid; a VM that was cloned or restored beside its original needs a UUID of its own", uuid)}
}
