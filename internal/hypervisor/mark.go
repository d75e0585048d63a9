package hypervisor

import (
	"encoding/xml"
	"fmt"

	"github.com/digitalocean/go-libvirt"
	"github.com/kilnvm/kiln/pkg/identity"
	"k8s.io/apimachinery/pkg/types"
)

// A domain's name is no proof of whose it is: the administrator of the machine may have a domain of that name, and a VMI that is
// created again has the name of its predecessor. So each domain that Kiln defines carries a mark in its metadata, and Kiln touches
// no domain without the right one. Tenants write no metadata.

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

// markElement is how a mark is written. libvirt hands it back without its namespace.
type markElement struct {
	XMLName xml.Name `xml:"https://kilnvm.io/guest guest"`
	Owner
}

// Domain is the name that stage 2 gives to the VMI's domain.
func (o Owner) Domain() string { return identity.DomainName(o.Namespace, o.Name) }

// Reasons of a TakenError.
const (
	ReasonNameTaken = "NameTaken"
	ReasonUUIDTaken = "UUIDTaken"
)

// TakenError is that of a domain which belongs to somebody else. Its text goes to the tenant, and thus names nobody else's guest.
type TakenError struct {
	// Reason is that of a condition.
	Reason string
	// By is the owner that the domain is marked with, nil if it has no mark.
	By *Owner
	// Text says what is taken, and the remedy.
	Text string
}

func (e *TakenError) Error() string { return e.Text }

// find looks the owner's domain up. The second result is false when there is none. A domain of that name that is not the owner's
// is a *TakenError.
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
		return domain, false, &TakenError{Reason: ReasonNameTaken, Text: fmt.Sprintf("this machine has a domain '%s' that Kiln did not make: "+
			"choose another name, or have the machine's administrator rename or undefine that domain", owner.Domain())}
	case owner.UID == "" || by.UID != owner.UID:
		return domain, false, &TakenError{Reason: ReasonNameTaken, By: by, Text: fmt.Sprintf("this machine still has the domain '%s' of an earlier "+
			"VirtualMachineInstance of this name: it is ended when that is gone from the cluster", owner.Domain())}
	}
	return domain, true, nil
}

// marked is the owner that a domain is marked with; nil for a domain that Kiln did not make.
func marked(rpc *libvirt.Libvirt, domain libvirt.Domain) (*Owner, error) {
	text, err := metadata(rpc, domain, MarkNamespace)
	if err != nil || text == "" {
		return nil, err
	}
	owner := &Owner{}
	if err := xml.Unmarshal([]byte(text), owner); err != nil {
		return nil, nil //nolint:nilerr // somebody else has written it, and it is no mark then
	}
	return owner, nil
}

// metadata is the element of an XML namespace in a domain's metadata; empty if there is none.
func metadata(rpc *libvirt.Libvirt, domain libvirt.Domain, namespace string) (string, error) {
	text, err := rpc.DomainGetMetadata(domain, int32(libvirt.DomainMetadataElement), libvirt.OptString{namespace}, libvirt.DomainAffectCurrent)
	return text, tolerate(err, libvirt.ErrNoDomainMetadata)
}

// unused tells whether no other domain of this machine has the UUID. libvirt would refuse the second domain too, but only after its
// secrets and filters were made, and with the name of the first, which may be another tenant's.
func unused(rpc *libvirt.Libvirt, uuid, name string) error {
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
	return &TakenError{Reason: ReasonUUIDTaken, Text: fmt.Sprintf("the firmware UUID '%s' is in use by another domain of this machine: "+
		"a guest that was cloned or restored beside its original needs a UUID of its own (spec.domain.firmware.uuid)", uuid)}
}
