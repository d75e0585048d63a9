package render

import (
	"cmp"
	"encoding/xml"
	"errors"

	"libvirt.org/go/libvirtxml"
)

// Document is one XML document for libvirt.
type Document struct {
	XMLName xml.Name `json:"-" xml:"document"`
	// Object is the name of the rendered VM or VMI. It is set only in lists with documents of several.
	Object string `json:"object,omitempty" xml:"object,attr,omitempty"`
	// Kind is domain, secret, nwfilter or nodedev, as virsh has them in the names of its commands.
	Kind string `json:"kind" xml:"kind,attr"`
	// Name is the name of the domain or filter; what a secret opens (luks/VOLUME, auth/VOLUME, vtpm); the UUID of a mediated device, or the WWPN of an adapter.
	Name string `json:"name" xml:"name,attr"`
	XML  string `json:"xml" xml:",innerxml"`
}

// ReadFrontend reads a frontend that another process has made with FromFacts and printed as XML.
func ReadFrontend(xml string) (*libvirtxml.Domain, error) {
	front := &libvirtxml.Domain{}
	if err := front.Unmarshal(xml); err != nil {
		return nil, err
	}
	if front.OS == nil || front.OS.Type == nil || front.VCPU == nil || front.Memory == nil || front.Devices == nil {
		return nil, errors.New("a frontend must have os, vcpu, memory and devices")
	}
	return front, nil
}

// SideDocuments returns the documents that libvirt must have before the domain, in the order in which they are defined. Documents of secrets do not contain the
// values: a value is set by a separate call, and is never printed.
func (r Result) SideDocuments() ([]Document, error) {
	var side []Document
	add := func(kind, name string, document libvirtxml.Document) error {
		text, err := document.Marshal()
		side = append(side, Document{Kind: kind, Name: name, XML: text})
		return err
	}
	for _, s := range r.Documents.Secrets {
		if err := add("secret", s.Ref, &s.Document); err != nil {
			return nil, err
		}
	}
	for _, f := range r.Documents.Filters {
		if err := add("nwfilter", f.Name, &f); err != nil {
			return nil, err
		}
	}
	for _, d := range r.Documents.NodeDevices {
		if err := add("nodedev", nodeDeviceName(d), &d); err != nil {
			return nil, err
		}
	}
	return side, nil
}

// nodeDeviceName returns the name of a node device. Libvirt names one when it creates it: before, its UUID or WWPN identifies it.
func nodeDeviceName(d libvirtxml.NodeDevice) string {
	if mediated := d.Capability.MDev; mediated != nil {
		return mediated.UUID
	}
	if host := d.Capability.SCSIHost; host != nil {
		for _, c := range host.Capability {
			if c.FCHost != nil {
				return c.FCHost.WWPN
			}
		}
	}
	return cmp.Or(d.Name, d.Parent)
}

// Bundle returns the documents as one XML document, below one root. It changes the XML of the list.
func Bundle(list []Document) (string, error) {
	for i := range list {
		list[i].XML = "\n" + list[i].XML + "\n"
	}
	text, err := xml.MarshalIndent(struct {
		XMLName   xml.Name `xml:"documents"`
		Documents []Document
	}{Documents: list}, "", "  ")
	return string(text), err
}
