package launch

import (
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"strings"

	"github.com/digitalocean/go-libvirt"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"libvirt.org/go/libvirtxml"
)

// Side documents of a domain: secrets, network filters and node devices. They are defined before it and removed after its guest
// has ended and before the domain is, which notes them: whatever dies in between, the next removal finds all of them.

// notes are in the domain's metadata.
type notes struct {
	XMLName  xml.Name `xml:"https://kilnvm.io/launch documents"`
	Secrets  []string `xml:"secret"` // UUIDs
	Filters  []string `xml:"filter"` // names
	Mediated []string `xml:"mdev"`   // UUIDs
	Adapters []string `xml:"fc"`     // WWPNs
}

func (n notes) empty() bool {
	return len(n.Secrets)+len(n.Filters)+len(n.Mediated)+len(n.Adapters) == 0
}

func noted(documents backend.Documents) notes {
	var n notes
	for _, s := range documents.Secrets {
		n.Secrets = append(n.Secrets, s.Document.UUID)
	}
	for _, f := range documents.Filters {
		n.Filters = append(n.Filters, f.Name)
	}
	for _, d := range documents.NodeDevices {
		if d.Capability.MDev != nil {
			n.Mediated = append(n.Mediated, d.Capability.MDev.UUID)
		} else {
			n.Adapters = append(n.Adapters, portName(d))
		}
	}
	return n
}

// Run defines the side documents and then defines and starts the domain, if it is not active already. values are those of the
// secrets, by reference; they go to libvirt alone.
func (l *Libvirt) Run(documents backend.Documents, values map[string][]byte) error {
	state, err := l.State(documents.Domain.Name)
	if err != nil || state == Active {
		return err
	}
	made := noted(documents)
	if made.empty() {
		return l.Start(documents.Domain)
	}
	note, err := xml.Marshal(made)
	if err != nil {
		return err
	}
	dom := *documents.Domain
	dom.Metadata = &libvirtxml.DomainMetadata{XML: string(note)}
	err = l.prepare(documents, values)
	if err == nil {
		err = l.Start(&dom)
	}
	if err == nil {
		return nil
	}
	if state, stateErr := l.State(dom.Name); stateErr == nil && state == Undefined {
		return errors.Join(err, l.sweep(made)) // no domain is there that could tell of them later
	}
	return err
}

func (l *Libvirt) prepare(documents backend.Documents, values map[string][]byte) error {
	rpc, err := l.connection()
	if err != nil {
		return err
	}
	for _, s := range documents.Secrets {
		if err := defineSecret(rpc, s, values); err != nil {
			return err
		}
	}
	for _, filter := range documents.Filters {
		text, err := filter.Marshal()
		if err == nil {
			_, err = rpc.NwfilterDefineXML(text)
		}
		if err != nil {
			return fmt.Errorf("libvirt refuses the filter '%s': %w", filter.Name, err)
		}
	}
	for _, device := range documents.NodeDevices {
		if err := makeDevice(rpc, device); err != nil {
			return err
		}
	}
	return nil
}

// defineSecret says nothing of the value, whatever fails.
func defineSecret(rpc *libvirt.Libvirt, s backend.Secret, values map[string][]byte) error {
	value, found := values[s.Ref]
	if !found {
		return fmt.Errorf("this machine has no value for secret '%s'", s.Ref)
	}
	text, err := s.Document.Marshal()
	if err != nil {
		return err
	}
	secret, err := rpc.SecretDefineXML(text, 0)
	if err == nil {
		err = rpc.SecretSetValue(secret, value, 0)
	}
	if err != nil {
		return fmt.Errorf("libvirt refuses secret '%s': %w", s.Ref, err)
	}
	return nil
}

// swept removes what a domain noted, if it noted anything.
func (l *Libvirt) swept(rpc *libvirt.Libvirt, domain libvirt.Domain) error {
	text, err := rpc.DomainGetXMLDesc(domain, libvirt.DomainXMLInactive)
	if err != nil {
		return tolerate(err, libvirt.ErrNoDomain)
	}
	var read libvirtxml.Domain
	if err := read.Unmarshal(text); err != nil {
		return err
	}
	if read.Metadata == nil || !strings.Contains(read.Metadata.XML, "https://kilnvm.io/launch") {
		return nil
	}
	var made notes
	if err := xml.Unmarshal([]byte(read.Metadata.XML), &made); err != nil {
		return fmt.Errorf("domain '%s' does not say what was made for it: %w", read.Name, err)
	}
	return l.sweep(made)
}

// sweep goes the way of prepare backwards. What is gone already is no error.
func (l *Libvirt) sweep(made notes) error {
	rpc, err := l.connection()
	if err != nil {
		return err
	}
	if err := removeDevices(rpc, made); err != nil {
		return err
	}
	for _, name := range made.Filters {
		filter, err := rpc.NwfilterLookupByName(name)
		if err == nil {
			err = rpc.NwfilterUndefine(filter)
		}
		if err := tolerate(err, libvirt.ErrNoNwfilter); err != nil {
			return err
		}
	}
	for _, text := range made.Secrets {
		uuid, err := parseUUID(text)
		if err != nil {
			return err
		}
		secret, err := rpc.SecretLookupByUUID(uuid)
		if err == nil {
			err = rpc.SecretUndefine(secret)
		}
		if err := tolerate(err, libvirt.ErrNoSecret); err != nil {
			return err
		}
	}
	return nil
}

func parseUUID(text string) (uuid libvirt.UUID, err error) {
	n, err := hex.Decode(uuid[:], []byte(strings.ReplaceAll(text, "-", "")))
	if err == nil && n != len(uuid) {
		err = errors.New("not a UUID")
	}
	return uuid, err
}
