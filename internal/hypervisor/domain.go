package hypervisor

import (
	"cmp"
	"context"
	"encoding/xml"
	"errors"
	"fmt"

	"github.com/digitalocean/go-libvirt"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"libvirt.org/go/libvirtxml"
)

// What is asked of libvirt about the domain of one VMI. A domain that is not the owner's is a *TakenError everywhere, and stays as
// it is.

// State asks for the owner's domain.
func (l *Libvirt) State(ctx context.Context, owner Owner) (status Status, err error) {
	err = l.asking(ctx, func(rpc *libvirt.Libvirt) error {
		domain, found, err := find(rpc, owner)
		if err != nil || !found {
			return err
		}
		state, reason, err := rpc.DomainGetState(domain, 0)
		if err != nil {
			return tolerate(err, libvirt.ErrNoDomain)
		}
		status = statusOf(state, reason)
		if status.State == PoweredOff && l.wasSignalled(domain.UUID) {
			status = Status{Failed, causeSignalled}
		}
		return nil
	})
	if err == nil && status.State == Undefined {
		status.Cause = causeGone
	}
	return status, err
}

// Guest is what is to be started.
type Guest struct {
	Owner     Owner
	Documents backend.Documents
	// Values are those of the secrets, by reference; they go to libvirt alone.
	Values map[string][]byte
	// Paused guests execute nothing until they are resumed.
	Paused bool
}

// Start defines the domain and its side documents and starts it, if it is not there already. The domain comes first: libvirt refuses
// one whose name or UUID another has, and then nothing was touched. A start that fails removes what it has made, and nothing else.
func (l *Libvirt) Start(ctx context.Context, guest Guest) error {
	var made notes
	fresh := false // the domain was defined here
	err := l.acting(ctx, func(rpc *libvirt.Libvirt) error {
		domain, found, err := find(rpc, guest.Owner)
		if err != nil {
			return err
		}
		if found {
			if active, err := rpc.DomainIsActive(domain); err != nil || active == 1 {
				return err
			}
		}
		if domain, err = define(rpc, guest); err != nil {
			return err
		}
		fresh = !found // an older domain goes on to tell what was made
		if made, err = prepare(rpc, guest.Documents, guest.Values); err != nil {
			return err
		}
		if err := guest.create(rpc, domain); err != nil {
			return fmt.Errorf("libvirt cannot start the domain: %w", err)
		}
		return nil
	})
	if err != nil && fresh {
		return errors.Join(err, l.undo(ctx, guest.Owner, made))
	}
	return err
}

// undo removes what a start has made that failed. A start that was given up may still succeed: then all stays, for the next look at
// the domain.
func (l *Libvirt) undo(ctx context.Context, owner Owner, made notes) error {
	return l.acting(ctx, func(rpc *libvirt.Libvirt) error {
		domain, found, err := find(rpc, owner)
		if err != nil || !found {
			return err
		}
		if active, err := rpc.DomainIsActive(domain); err != nil || active == 1 {
			return err
		}
		return errors.Join(sweep(rpc, made), undefine(rpc, domain))
	})
}

// define defines the domain, validated against libvirt's schema.
func define(rpc *libvirt.Libvirt, guest Guest) (domain libvirt.Domain, err error) {
	text, err := guest.document(noted(guest.Documents))
	if err != nil {
		return domain, err
	}
	uuid, name := guest.Documents.Domain.UUID, guest.Owner.Domain()
	if err := unused(rpc, uuid, name); err != nil {
		return domain, err
	}
	domain, err = rpc.DomainDefineXMLFlags(text, libvirt.DomainDefineValidate)
	if err != nil {
		// Somebody may have taken the UUID just now, and libvirt's error would name them.
		return domain, cmp.Or(unused(rpc, uuid, name), fmt.Errorf("libvirt refuses the domain: %w", err))
	}
	return domain, nil
}

func (guest Guest) create(rpc *libvirt.Libvirt, domain libvirt.Domain) error {
	var flags uint32
	if guest.Paused {
		flags = uint32(libvirt.DomainStartPaused)
	}
	_, err := rpc.DomainCreateWithFlags(domain, flags)
	return err
}

// document is the domain with what Kiln must find in it again: whose it is, and what was made for it.
func (guest Guest) document(made notes) (string, error) {
	metadata, err := xml.Marshal(markElement{Owner: guest.Owner})
	if err != nil {
		return "", err
	}
	if !made.empty() {
		note, err := xml.Marshal(noteElement{notes: made})
		if err != nil {
			return "", err
		}
		metadata = append(metadata, note...)
	}
	domain := *guest.Documents.Domain
	domain.Metadata = &libvirtxml.DomainMetadata{XML: string(metadata)}
	return domain.Marshal()
}

// Shutdown asks the guest to power off by ACPI. A domain that is not active is no error.
func (l *Libvirt) Shutdown(ctx context.Context, owner Owner) error {
	return l.asking(ctx, func(rpc *libvirt.Libvirt) error {
		domain, found, err := find(rpc, owner)
		if err == nil && found {
			err = rpc.DomainShutdown(domain)
		}
		return tolerate(err, libvirt.ErrNoDomain, libvirt.ErrOperationInvalid)
	})
}

// Destroy ends the owner's QEMU, if it runs.
func (l *Libvirt) Destroy(ctx context.Context, owner Owner) error {
	return l.acting(ctx, func(rpc *libvirt.Libvirt) error {
		domain, found, err := find(rpc, owner)
		if err == nil && found {
			err = rpc.DomainDestroy(domain)
		}
		return tolerate(err, libvirt.ErrNoDomain, libvirt.ErrOperationInvalid)
	})
}

// removeAll is what goes with a domain. An administrator's snapshots and checkpoints would otherwise keep it for ever; only what
// libvirt notes of them goes, their data is in the disks.
const removeAll = libvirt.DomainUndefineNvram | libvirt.DomainUndefineManagedSave |
	libvirt.DomainUndefineSnapshotsMetadata | libvirt.DomainUndefineCheckpointsMetadata

// Remove destroys the owner's domain if it is active, removes what was made for it, and undefines it with its NVRAM. It is
// idempotent.
func (l *Libvirt) Remove(ctx context.Context, owner Owner) error {
	if err := l.Destroy(ctx, owner); err != nil {
		return err
	}
	return l.acting(ctx, func(rpc *libvirt.Libvirt) error {
		domain, found, err := find(rpc, owner)
		if err != nil || !found {
			return err
		}
		if err := swept(rpc, domain); err != nil {
			return err
		}
		return undefine(rpc, domain)
	})
}

func undefine(rpc *libvirt.Libvirt, domain libvirt.Domain) error {
	return tolerate(rpc.DomainUndefineFlags(domain, removeAll), libvirt.ErrNoDomain)
}

// ActiveDomain is the domain of that name as libvirt runs it now, whoever started it.
func (l *Libvirt) ActiveDomain(ctx context.Context, name string) (*libvirtxml.Domain, error) {
	var text string
	err := l.asking(ctx, func(rpc *libvirt.Libvirt) error {
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

// MachineType is that of the owner's domain as it runs, such as pc-q35-7.2.
func (l *Libvirt) MachineType(ctx context.Context, owner Owner) (string, error) {
	domain, err := l.ActiveDomain(ctx, owner.Domain())
	if err != nil || domain.OS == nil || domain.OS.Type == nil {
		return "", err
	}
	return domain.OS.Type.Machine, nil
}
