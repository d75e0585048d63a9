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

// Side documents of a domain: secrets, network filters, node devices and the link to the state of its TPM. They are made after it is defined and
// removed before it is, after its guest has ended. It notes them: whatever dies in between, the next removal finds all of them.

// notes are in the domain's metadata.
type notes struct {
	XMLName  xml.Name `xml:"https://kilnvm.io/launch documents"`
	Secrets  []string `xml:"secret"` // UUIDs
	Filters  []string `xml:"filter"` // names
	Mediated []string `xml:"mdev"`   // UUIDs
	Adapters []string `xml:"fc"`     // WWPNs
	// TPM is set where libvirt cannot be told where the state of a TPM lies.
	TPM *tpmNote `xml:"tpm"`
}

// tpmNote is where libvirt is led to for the state of a TPM.
type tpmNote struct {
	UUID  string `xml:"uuid,attr"` // of the domain
	State string `xml:",chardata"` // folder
}

func (n notes) empty() bool {
	return len(n.Secrets)+len(n.Filters)+len(n.Mediated)+len(n.Adapters) == 0 && n.TPM == nil
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
	if documents.TPMState != "" {
		n.TPM = &tpmNote{UUID: documents.Domain.UUID, State: documents.TPMState}
	}
	return n
}

// Run defines the domain and its side documents and starts it, if it is not active already. The domain comes first: libvirt refuses one whose name
// or UUID another has, and then nothing was touched. values are those of the secrets, by reference; they go to libvirt alone. A start that fails
// removes what it has made, and nothing else.
func (l *Libvirt) Run(documents backend.Documents, values map[string][]byte) error {
	before, err := l.State(documents.Domain.Name)
	if err != nil || before == Active {
		return err
	}
	dom := *documents.Domain
	if all := noted(documents); !all.empty() {
		note, err := xml.Marshal(all)
		if err != nil {
			return err
		}
		dom.Metadata = &libvirtxml.DomainMetadata{XML: string(note)}
	}
	rpc, err := l.connection()
	if err != nil {
		return err
	}
	domain, err := define(rpc, &dom)
	if err != nil {
		return err
	}
	made, err := prepare(rpc, documents, values)
	if err == nil {
		err = create(rpc, domain)
	}
	if err == nil || before != Undefined { // an older domain goes on to tell what was made
		return err
	}
	return errors.Join(err, sweep(rpc, made), undefine(rpc, domain))
}

// prepare makes what the domain, which is defined, needs. It returns what it made, also with an error: secrets and filters have names of this
// VMI alone, while a device may have been there before.
func prepare(rpc *libvirt.Libvirt, documents backend.Documents, values map[string][]byte) (notes, error) {
	made := noted(documents)
	made.Mediated, made.Adapters = nil, nil
	for _, s := range documents.Secrets {
		if err := defineSecret(rpc, s, values); err != nil {
			return made, err
		}
	}
	for _, filter := range documents.Filters {
		text, err := filter.Marshal()
		if err == nil {
			_, err = rpc.NwfilterDefineXML(text)
		}
		if err != nil {
			return made, fmt.Errorf("libvirt refuses the filter '%s': %w", filter.Name, err)
		}
	}
	if made.TPM != nil {
		if err := linkState(*made.TPM); err != nil {
			return made, err
		}
	}
	for _, device := range documents.NodeDevices {
		if err := makeDevice(rpc, device, &made); err != nil {
			return made, err
		}
	}
	return made, nil
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
func swept(rpc *libvirt.Libvirt, domain libvirt.Domain) error {
	made, err := readNotes(rpc, domain)
	if err != nil {
		return err
	}
	if made, err = unshared(rpc, domain, made); err != nil {
		return err
	}
	return sweep(rpc, made)
}

// readNotes is empty for a domain that is gone or has noted nothing.
func readNotes(rpc *libvirt.Libvirt, domain libvirt.Domain) (made notes, err error) {
	text, err := rpc.DomainGetXMLDesc(domain, libvirt.DomainXMLInactive)
	if err != nil {
		return made, tolerate(err, libvirt.ErrNoDomain)
	}
	var read libvirtxml.Domain
	if err := read.Unmarshal(text); err != nil {
		return made, err
	}
	if read.Metadata == nil || !strings.Contains(read.Metadata.XML, "https://kilnvm.io/launch") {
		return made, nil
	}
	if err := xml.Unmarshal([]byte(read.Metadata.XML), &made); err != nil {
		return made, fmt.Errorf("domain '%s' does not say what was made for it: %w", read.Name, err)
	}
	return made, nil
}

// sweep goes the way of prepare backwards. What is gone already is no error.
func sweep(rpc *libvirt.Libvirt, made notes) error {
	if err := removeDevices(rpc, made); err != nil {
		return err
	}
	if made.TPM != nil {
		if err := unlinkState(*made.TPM); err != nil {
			return err
		}
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
