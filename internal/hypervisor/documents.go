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

// The side documents of a domain are secrets, network filters, node devices and the link to the state of its TPM. They are created after the domain is
// defined, and removed after it has ended and before it is undefined. The domain's metadata lists them, so that the next removal finds all of them if a
// process dies in between.

// inventoryNamespace is the XML namespace of the inventory. It is stored in domains and cannot change.
const inventoryNamespace = "https://kilnvm.io/launch"

// inventory lists the side documents of a domain, in the domain's metadata.
type inventory struct {
	Secrets  []string `xml:"secret"` // UUIDs
	Filters  []string `xml:"filter"` // names
	Mediated []string `xml:"mdev"`   // UUIDs
	Adapters []string `xml:"fc"`     // WWPNs
	// TPM is set for a libvirt before 10.10, in whose domains the folder of a TPM's state cannot be configured.
	TPM *tpmLink `xml:"tpm"`
}

// tpmLink leads libvirt to the state of a TPM.
type tpmLink struct {
	UUID  string `xml:"uuid,attr"` // of the domain
	State string `xml:",chardata"` // folder
}

// inventoryElement is an inventory as it is written. libvirt returns it without its namespace.
type inventoryElement struct {
	XMLName xml.Name `xml:"https://kilnvm.io/launch documents"`
	inventory
}

// isEmpty reports whether a domain has no side documents. Such a domain gets no inventory.
func (n inventory) isEmpty() bool {
	return len(n.Secrets)+len(n.Filters)+len(n.Mediated)+len(n.Adapters) == 0 && n.TPM == nil
}

// inventoryOf returns the inventory of a rendered domain.
func inventoryOf(documents backend.Documents) inventory {
	var n inventory
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
		n.TPM = &tpmLink{UUID: documents.Domain.UUID, State: documents.TPMState}
	}
	return n
}

// createSideDocuments creates the side documents of a defined domain. values are the values of the secrets, by reference. It returns the documents to remove
// if the start fails, even with an error: all secrets and filters, because only this VMI has their names, and only devices that did not exist before.
func createSideDocuments(rpc *libvirt.Libvirt, documents backend.Documents, values map[string][]byte) (inventory, error) {
	made := inventoryOf(documents)
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
			return made, fmt.Errorf("libvirt refuses network filter '%s': %w", filter.Name, err)
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

// defineSecret gives libvirt a secret and its value. No error contains the value.
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

// removeSideDocuments removes what is in a domain's inventory, except devices that other domains use.
func removeSideDocuments(rpc *libvirt.Libvirt, domain libvirt.Domain) error {
	made, err := readInventory(rpc, domain)
	if err != nil {
		return err
	}
	if made, err = withoutShared(rpc, domain, made); err != nil {
		return err
	}
	return removeListed(rpc, made)
}

// readInventory returns the inventory of a domain. It is empty if the domain does not exist or has no inventory.
func readInventory(rpc *libvirt.Libvirt, domain libvirt.Domain) (made inventory, err error) {
	text, err := metadataElement(rpc, domain, inventoryNamespace)
	if err != nil || text == "" {
		return made, ignoreErrors(err, libvirt.ErrNoDomain)
	}
	if err := xml.Unmarshal([]byte(text), &made); err != nil {
		return made, fmt.Errorf("the list of side documents in the metadata of domain '%s' cannot be read: %w", domain.Name, err)
	}
	return made, nil
}

// removeListed removes side documents in the reverse order of createSideDocuments. A document that does not exist is not an error.
func removeListed(rpc *libvirt.Libvirt, made inventory) error {
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
		if err := ignoreErrors(err, libvirt.ErrNoNwfilter); err != nil {
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
		if err := ignoreErrors(err, libvirt.ErrNoSecret); err != nil {
			return err
		}
	}
	return nil
}

// parseUUID reads a UUID with or without hyphens.
func parseUUID(text string) (uuid libvirt.UUID, err error) {
	n, err := hex.Decode(uuid[:], []byte(strings.ReplaceAll(text, "-", "")))
	if err == nil && n != len(uuid) {
		err = errors.New("not a UUID")
	}
	return uuid, err
}
