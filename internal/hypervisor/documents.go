package hypervisor

import (
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"strings"

	"github.com/digitalocean/go-libvirt"
	"github.com/kilnvm/kiln/pkg/domain/backend"
)

// Side documents of a domain: secrets, network filters, node devices and the link to the state of its TPM. They are made after it is defined, and
// removed after its guest has ended and before the domain is. It notes them: whatever dies in between, the next removal finds all of them.

// notesNamespace is the XML namespace of notes.
const notesNamespace = "https://kilnvm.io/launch"

// notes are in the domain's metadata.
type notes struct {
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

// noteElement is how notes are written. libvirt hands them back without their namespace.
type noteElement struct {
	XMLName xml.Name `xml:"https://kilnvm.io/launch documents"`
	notes
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

// prepare makes the side documents of a domain that is defined. values are those of the secrets, by reference. It returns what it made, also with an
// error: secrets and filters have names of this VMI alone, while a device may have been there before.
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
	text, err := metadata(rpc, domain, notesNamespace)
	if err != nil || text == "" {
		return made, tolerate(err, libvirt.ErrNoDomain)
	}
	if err := xml.Unmarshal([]byte(text), &made); err != nil {
		return made, fmt.Errorf("domain '%s' does not say what was made for it: %w", domain.Name, err)
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
