package hypervisor

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"time"

	"github.com/digitalocean/go-libvirt"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"libvirt.org/go/libvirtxml"
)

// Operations on the domain of a VMI. If the domain belongs to another owner, each of them returns a *TakenError and changes nothing.

// Guest is a domain to start, with its side documents and secrets.
type Guest struct {
	Owner     Owner
	Documents backend.Documents
	// Values are the values of the secrets, by reference. Only libvirt gets them.
	Values map[string][]byte
	// Paused starts the domain without executing anything until it is resumed.
	Paused bool
}

// Start defines the domain and its side documents and starts it, unless it is active. The domain is defined first, because libvirt refuses a domain if
// another one has its name or UUID, and nothing has been changed then. A start that fails removes only what it created.
func (l *Libvirt) Start(ctx context.Context, guest Guest) error {
	if err := l.checkTPM(guest.Documents); err != nil {
		return err
	}
	var made inventory
	fresh := false // this call defined the domain
	err := l.runChange(ctx, func(rpc *libvirt.Libvirt) error {
		domain, found, err := findDomain(rpc, guest.Owner)
		if err != nil {
			return err
		}
		if found {
			if active, err := rpc.DomainIsActive(domain); err != nil || active == 1 {
				return err
			}
		}
		if domain, err = defineDomain(rpc, guest); err != nil {
			return err
		}
		fresh = !found // an older domain keeps its inventory
		if made, err = createSideDocuments(rpc, guest.Documents, guest.Values); err != nil {
			return err
		}
		if err := guest.startDomain(rpc, domain); err != nil {
			return fmt.Errorf("libvirt cannot start the domain: %w", err)
		}
		return nil
	})
	if err != nil && fresh {
		return errors.Join(err, l.undoStart(ctx, guest.Owner, made))
	}
	return err
}

// undoStart removes what a failed start created. It leaves an active domain as it is, because a start may still succeed after its deadline.
func (l *Libvirt) undoStart(ctx context.Context, owner Owner, made inventory) error {
	return l.runChange(ctx, func(rpc *libvirt.Libvirt) error {
		domain, found, err := findDomain(rpc, owner)
		if err != nil || !found {
			return err
		}
		if active, err := rpc.DomainIsActive(domain); err != nil || active == 1 {
			return err
		}
		return errors.Join(removeListed(rpc, made), undefineDomain(rpc, domain))
	})
}

// defineDomain defines the domain. libvirt validates it against its schema, so that an element which libvirt would ignore is an error. A *TakenError means that
// another domain has the UUID.
func defineDomain(rpc *libvirt.Libvirt, guest Guest) (domain libvirt.Domain, err error) {
	text, err := guest.domainXML(inventoryOf(guest.Documents))
	if err != nil {
		return domain, err
	}
	uuid, name := guest.Documents.Domain.UUID, guest.Owner.Domain()
	if err := checkUUIDUnused(rpc, uuid, name); err != nil {
		return domain, err
	}
	domain, err = rpc.DomainDefineXMLFlags(text, libvirt.DomainDefineValidate)
	if err != nil {
		// Another domain may have got the UUID in between.
		if taken := checkUUIDUnused(rpc, uuid, name); taken != nil {
			return domain, taken
		}
		return domain, fmt.Errorf("libvirt refuses the domain: %w", err)
	}
	return domain, nil
}

// startDomain starts the defined domain.
func (guest Guest) startDomain(rpc *libvirt.Libvirt, domain libvirt.Domain) error {
	var flags uint32
	if guest.Paused {
		flags = uint32(libvirt.DomainStartPaused)
	}
	_, err := rpc.DomainCreateWithFlags(domain, flags)
	return err
}

// domainXML returns the domain's XML with its mark and its inventory.
func (guest Guest) domainXML(made inventory) (string, error) {
	metadata, err := xml.Marshal(markElement{Owner: guest.Owner})
	if err != nil {
		return "", err
	}
	if !made.isEmpty() {
		list, err := xml.Marshal(inventoryElement{inventory: made})
		if err != nil {
			return "", err
		}
		metadata = append(metadata, list...)
	}
	domain := *guest.Documents.Domain
	domain.Metadata = &libvirtxml.DomainMetadata{XML: string(metadata)}
	return domain.Marshal()
}

// shutdownByAgent bounds how long a shutdown waits for the guest agent.
const shutdownByAgent = 5 * time.Second

// Shutdown asks the guest to power off, by ACPI and then by its agent, and does not wait until the guest is off. A guest that boots or hangs ignores the
// request, so the caller repeats it. A domain that is not active is not an error. virDomainShutdown without flags would ask the agent first, and use ACPI
// only after the agent has refused. If the agent hangs, a guest that obeys ACPI would wait for a minute.
func (l *Libvirt) Shutdown(ctx context.Context, owner Owner) error {
	asked := false
	by := func(way libvirt.DomainShutdownFlagValues) func(*libvirt.Libvirt) error {
		return func(rpc *libvirt.Libvirt) error {
			domain, found, err := findDomain(rpc, owner)
			if err == nil && found {
				err = rpc.DomainShutdownFlags(domain, way)
				asked = err == nil
			}
			return ignoreErrors(err, libvirt.ErrNoDomain, libvirt.ErrOperationInvalid)
		}
	}
	if err := l.runQuery(ctx, by(libvirt.DomainShutdownAcpiPowerBtn)); err != nil || !asked {
		return err
	}
	within, cancel := context.WithTimeout(ctx, shutdownByAgent)
	defer cancel()
	_ = l.runQuery(within, by(libvirt.DomainShutdownGuestAgent)) // many guests have no agent, and ACPI has been asked already
	return nil
}

// Destroy ends the owner's domain at once. A domain that is not active is not an error.
func (l *Libvirt) Destroy(ctx context.Context, owner Owner) error {
	return l.runChange(ctx, func(rpc *libvirt.Libvirt) error {
		domain, found, err := findDomain(rpc, owner)
		if err == nil && found {
			err = rpc.DomainDestroy(domain)
		}
		return ignoreErrors(err, libvirt.ErrNoDomain, libvirt.ErrOperationInvalid)
	})
}

// removeAll are the flags that remove the files and metadata of a domain with it. Without them, an administrator's snapshots and checkpoints prevent the
// removal. Only libvirt's metadata of snapshots and checkpoints is removed: their data is in the disks.
const removeAll = libvirt.DomainUndefineNvram | libvirt.DomainUndefineManagedSave |
	libvirt.DomainUndefineSnapshotsMetadata | libvirt.DomainUndefineCheckpointsMetadata

// Remove destroys the owner's domain if it is active, removes its side documents, and undefines it with its NVRAM. It is idempotent.
func (l *Libvirt) Remove(ctx context.Context, owner Owner) error {
	if err := l.Destroy(ctx, owner); err != nil {
		return err
	}
	return l.runChange(ctx, func(rpc *libvirt.Libvirt) error {
		domain, found, err := findDomain(rpc, owner)
		if err != nil || !found {
			return err
		}
		if err := removeSideDocuments(rpc, domain); err != nil {
			return err
		}
		return undefineDomain(rpc, domain)
	})
}

// undefineDomain removes the definition of an inactive domain. A domain that does not exist is not an error.
func undefineDomain(rpc *libvirt.Libvirt, domain libvirt.Domain) error {
	return ignoreErrors(rpc.DomainUndefineFlags(domain, removeAll), libvirt.ErrNoDomain)
}

// ActiveDomain returns the XML of the active domain with this name. It does not check the owner.
func (l *Libvirt) ActiveDomain(ctx context.Context, name string) (*libvirtxml.Domain, error) {
	var text string
	err := l.runQuery(ctx, func(rpc *libvirt.Libvirt) error {
		domain, err := rpc.DomainLookupByName(name)
		if err != nil {
			return err
		}
		active, err := rpc.DomainIsActive(domain)
		if err == nil && active == 0 {
			return fmt.Errorf("domain '%s' does not run", name)
		}
		if err == nil {
			text, err = rpc.DomainGetXMLDesc(domain, 0)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	running := &libvirtxml.Domain{}
	if err := running.Unmarshal(text); err != nil {
		return nil, errors.Join(fmt.Errorf("the XML of domain '%s' cannot be read", name), err)
	}
	return running, nil
}
