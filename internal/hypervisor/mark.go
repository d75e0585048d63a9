package hypervisor

import (
	"encoding/xml"
	"fmt"

	"github.com/digitalocean/go-libvirt"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/identity"
	"k8s.io/apimachinery/pkg/types"
)

// A domain's name does not prove its owner: the administrator of the machine may have a domain of the same name, and a VMI that is created again has the name
// of its predecessor. So each domain that Kiln defines has a mark in its metadata, and Kiln changes no domain without the right mark. Tenants cannot write
// metadata.

// MarkNamespace is the XML namespace of the mark.
const MarkNamespace = "https://kilnvm.io/guest"

// Owner is the VMI that a domain runs, and the node that runs it.
type Owner struct {
	// Cluster is the UID of the cluster's namespace kube-system; empty in a mark that was written by hand.
	Cluster   types.UID `xml:"cluster,attr,omitempty"`
	Namespace string    `xml:"namespace,attr"`
	Name      string    `xml:"name,attr"`
	UID       types.UID `xml:"uid,attr"`
	Node      string    `xml:"node,attr"`
}

// markElement is a mark as it is written. libvirt returns it without its namespace.
type markElement struct {
	XMLName xml.Name `xml:"https://kilnvm.io/guest guest"`
	Owner
}

// Domain returns the name of the VMI's domain in libvirt.
func (o Owner) Domain() string { return identity.DomainName(o.Namespace, o.Name) }

// TakenError reports that another owner's domain has the name or UUID of a VMI's domain. The tenant reads its text, so the text does not name the other
// owner.
type TakenError struct {
	// Reason is ReasonNameTaken or ReasonUUIDTaken, for a condition.
	Reason string
	// By is the owner in the domain's mark; nil if it has no mark.
	By *Owner
	// Text names what is taken, and the remedy.
	Text string
}

func (e *TakenError) Error() string { return e.Text }

// findDomain looks up the owner's domain. The second result is false if the domain does not exist. If the domain of this name has another owner, the error is a
// *TakenError.
func findDomain(rpc *libvirt.Libvirt, owner Owner) (libvirt.Domain, bool, error) {
	domain, err := rpc.DomainLookupByName(owner.Domain())
	if err != nil {
		return domain, false, ignoreErrors(err, libvirt.ErrNoDomain)
	}
	by, err := markedOwner(rpc, domain)
	switch {
	case err != nil:
		return domain, false, ignoreErrors(err, libvirt.ErrNoDomain)
	case by == nil:
		return domain, false, &TakenError{Reason: v1alpha1.ReasonNameTaken, Text: fmt.Sprintf("this machine has a domain '%s' that Kiln did not make: "+
			"use another name, or ask the machine's administrator to rename or undefine that domain", owner.Domain())}
	case owner.UID == "" || by.UID != owner.UID:
		return domain, false, &TakenError{Reason: v1alpha1.ReasonNameTaken, By: by, Text: fmt.Sprintf("this machine still has the domain '%s' of an earlier "+
			"VirtualMachineInstance of this name; Kiln removes the domain once that object is gone from the cluster", owner.Domain())}
	}
	return domain, true, nil
}

// markedOwner returns the owner in a domain's mark; nil for a domain that Kiln did not make. It returns nil for a mark that cannot be read, too, so that Kiln
// does not change the domain.
func markedOwner(rpc *libvirt.Libvirt, domain libvirt.Domain) (*Owner, error) {
	text, err := metadataElement(rpc, domain, MarkNamespace)
	if err != nil || text == "" {
		return nil, err
	}
	owner := &Owner{}
	if err := xml.Unmarshal([]byte(text), owner); err != nil {
		return nil, nil //nolint:nilerr // Kiln did not write it
	}
	return owner, nil
}

// metadataElement returns the element of an XML namespace in a domain's metadata; empty if the metadata has no such element.
func metadataElement(rpc *libvirt.Libvirt, domain libvirt.Domain, namespace string) (string, error) {
	text, err := rpc.DomainGetMetadata(domain, int32(libvirt.DomainMetadataElement), libvirt.OptString{namespace}, libvirt.DomainAffectCurrent)
	return text, ignoreErrors(err, libvirt.ErrNoDomainMetadata)
}

// checkUUIDUnused returns a *TakenError if a domain of another name has the UUID. libvirt refuses the second domain, too, but its error names the first one,
// which may be another tenant's.
func checkUUIDUnused(rpc *libvirt.Libvirt, uuid, name string) error {
	key, err := parseUUID(uuid)
	if err != nil {
		return err
	}
	domain, err := rpc.DomainLookupByUUID(key)
	if err != nil {
		return ignoreErrors(err, libvirt.ErrNoDomain)
	}
	if domain.Name == name {
		return nil
	}
	return &TakenError{Reason: v1alpha1.ReasonUUIDTaken, Text: fmt.Sprintf("the firmware UUID '%s' is in use by another domain of this machine: "+
		"set another spec.domain.firmware.uuid; a VM that was cloned or restored beside its original needs a UUID of its own", uuid)}
}
