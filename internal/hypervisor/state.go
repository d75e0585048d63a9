package hypervisor

import (
	"context"
	"errors"
	"fmt"

	"github.com/digitalocean/go-libvirt"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"libvirt.org/go/libvirtxml"
)

// State is the state of a domain.
type State int

// The states of a domain that make a difference for the phase of a VMI.
const (
	// Undefined is a domain that libvirt does not know.
	Undefined State = iota
	// Inactive is a domain that is defined, and failed to start or has not run since libvirt was started.
	Inactive
	// PoweredOff is a domain whose guest powered off.
	PoweredOff
	// Destroyed is a domain that was ended from outside the guest: by Kiln for the VMI's owner, or by hand.
	Destroyed
	// Failed is a domain that ended in any other way.
	Failed
	// Paused is an active domain whose CPUs are stopped.
	Paused
	// Running is a domain that runs.
	Running
)

// Status is the state of a domain, and the reason for it.
type Status struct {
	State State
	// Cause is the reason why a domain does not run, or is paused; empty for a running one.
	Cause Cause
	// Machine is the machine type of an active domain, such as pc-q35-7.2; empty for others.
	Machine string
}

// Active reports whether a QEMU process runs the domain: libvirt calls such a domain active.
func (s Status) Active() bool { return s.State == Running || s.State == Paused }

// Startable reports whether the domain has not run yet, as far as libvirt knows. A second start would hide how the first run ended.
func (s Status) Startable() bool { return s.State == Undefined || s.State == Inactive }

// State returns the status of the owner's domain. Its State is Undefined if the domain does not exist. If the domain of this name has another owner, the
// error is a *TakenError.
func (l *Libvirt) State(ctx context.Context, owner Owner) (status Status, err error) {
	err = l.runQuery(ctx, func(rpc *libvirt.Libvirt) error {
		domain, found, err := findDomain(rpc, owner)
		if err != nil || !found {
			return err
		}
		state, reason, err := rpc.DomainGetState(domain, 0)
		if err != nil {
			return ignoreErrors(err, libvirt.ErrNoDomain)
		}
		now := statusOf(state, reason)
		if now.State == PoweredOff && l.wasSignalled(domain.UUID) {
			now = Status{State: Failed, Cause: causeSignalled}
		}
		if now.Active() {
			if now.Machine, err = machineType(rpc, domain); err != nil {
				return ignoreErrors(err, libvirt.ErrNoDomain) // it was undefined in between
			}
		}
		status = now
		return nil
	})
	if err == nil && status.State == Undefined {
		status.Cause = causeGone
	}
	return status, err
}

// StateReader reads the states of domains. Libvirt implements it.
type StateReader interface {
	State(ctx context.Context, owner Owner) (Status, error)
}

// StartedStatus returns the status of a domain that was started. If another owner has a domain of its name, the started domain is gone: the status has the
// reason as its Cause, and the error is nil.
func StartedStatus(ctx context.Context, reader StateReader, owner Owner) (Status, error) {
	status, err := reader.State(ctx, owner)
	var taken *TakenError
	if errors.As(err, &taken) {
		return Status{Cause: Cause{Reason: taken.Reason, Message: "the domain of this VMI is gone: " + taken.Text}}, nil
	}
	return status, err
}

// machineType returns the machine type in a domain's XML. libvirt has replaced an alias such as 'q35' by a versioned type.
func machineType(rpc *libvirt.Libvirt, domain libvirt.Domain) (string, error) {
	text, err := rpc.DomainGetXMLDesc(domain, 0)
	if err != nil {
		return "", err
	}
	var document libvirtxml.Domain
	if err := document.Unmarshal(text); err != nil {
		return "", fmt.Errorf("the XML of domain '%s' cannot be read: %w", domain.Name, err)
	}
	if document.OS == nil || document.OS.Type == nil {
		return "", nil
	}
	return document.OS.Type.Machine, nil
}

// Cause is the reason and message of a condition or event about a domain that does not run.
type Cause struct{ Reason, Message string }

// Causes that are not in the tables below, or are used elsewhere, too.
var (
	causeGone = Cause{v1alpha1.ReasonDomainGone,
		"libvirt no longer has the domain of this VMI: somebody undefined it, or the machine was reinstalled"}
	causeUnknown = Cause{v1alpha1.ReasonEndedWithHost,
		"the domain is off, and libvirt does not report why: the machine or its libvirt daemon was restarted while the domain ran"}
	causeCrashed = Cause{v1alpha1.ReasonCrashed,
		"the guest's kernel panicked, or QEMU crashed or was killed (for example because the machine ran out of memory)"}
	causeSignalled = Cause{v1alpha1.ReasonEndedWithHost, "a signal ended QEMU, for example because the machine was shut down"}
)

// shutoffStatuses maps libvirt's reasons why a domain is shut off (enum virDomainShutoffReason). Only a guest that powers off by itself has succeeded.
var shutoffStatuses = map[libvirt.DomainShutoffReason]Status{
	libvirt.DomainShutoffUnknown:  {State: Inactive, Cause: causeUnknown},
	libvirt.DomainShutoffShutdown: {State: PoweredOff, Cause: Cause{v1alpha1.ReasonPoweredOff, "the guest powered off"}},
	libvirt.DomainShutoffDestroyed: {State: Destroyed, Cause: Cause{v1alpha1.ReasonDestroyed,
		"the domain was destroyed by hand or by another program of the machine"}},
	libvirt.DomainShutoffCrashed: {State: Failed, Cause: causeCrashed},
	libvirt.DomainShutoffMigrated: {State: Failed, Cause: Cause{v1alpha1.ReasonMigrated,
		"the domain was migrated by hand to another machine; Kiln does not follow it there"}},
	libvirt.DomainShutoffSaved:  {State: Failed, Cause: Cause{v1alpha1.ReasonSaved, "the domain was saved by hand to a file of the machine and no longer runs"}},
	libvirt.DomainShutoffFailed: {State: Inactive, Cause: Cause{v1alpha1.ReasonStartFailed, "libvirt could not start or resume the domain"}},
	libvirt.DomainShutoffFromSnapshot: {State: Failed, Cause: Cause{v1alpha1.ReasonReverted,
		"the domain was reverted by hand to a snapshot in which it is off"}},
	libvirt.DomainShutoffDaemon: {State: Failed, Cause: Cause{v1alpha1.ReasonEndedByLibvirt, "the libvirt daemon ended the domain when the daemon was restarted"}},
}

// pausedCauses maps libvirt's reasons why a domain is paused (enum virDomainPausedReason).
var pausedCauses = map[libvirt.DomainPausedReason]Cause{
	libvirt.DomainPausedUser:      {v1alpha1.ReasonPausedByUser, "the domain is paused: it was started paused (spec.startStrategy) or suspended by hand"},
	libvirt.DomainPausedMigration: {v1alpha1.ReasonPausedForMigration, "the domain is paused while it is migrated by hand"},
	libvirt.DomainPausedSave:      {v1alpha1.ReasonPausedForSave, "the domain is paused while it is saved to a file of the machine"},
	libvirt.DomainPausedDump:      {v1alpha1.ReasonPausedForDump, "the domain is paused while its memory is dumped"},
	libvirt.DomainPausedIoerror: {v1alpha1.ReasonPausedIOError,
		"the domain is paused because a disk cannot be read or written: the storage may be full, or its server may not answer"},
	libvirt.DomainPausedWatchdog: {v1alpha1.ReasonPausedByWatchdog, "the domain is paused because its watchdog expired"},
	libvirt.DomainPausedFromSnapshot: {v1alpha1.ReasonPausedFromSnapshot,
		"the domain is paused because it was reverted to a snapshot in which it is paused"},
	libvirt.DomainPausedShuttingDown:   {v1alpha1.ReasonPausedShuttingDown, "the domain is paused while it shuts down"},
	libvirt.DomainPausedSnapshot:       {v1alpha1.ReasonPausedForSnapshot, "the domain is paused while a snapshot is taken"},
	libvirt.DomainPausedCrashed:        {v1alpha1.ReasonPausedCrashed, "the domain is paused because the guest's kernel panicked"},
	libvirt.DomainPausedStartingUp:     {v1alpha1.ReasonPausedStartingUp, "the domain is being started"},
	libvirt.DomainPausedPostcopy:       {v1alpha1.ReasonPausedForMigration, "the domain is paused while it is migrated by hand"},
	libvirt.DomainPausedPostcopyFailed: {v1alpha1.ReasonPausedMigrationFailed, "the domain is paused because its migration by hand failed"},
}

// statusOf returns the status for a state and reason of DomainGetState. A reason that a newer libvirt adds counts as unknown. The other states count as
// Running, among them 'in shutdown', in which the guest still writes its disks.
func statusOf(state, reason int32) Status {
	switch libvirt.DomainState(state) {
	case libvirt.DomainShutoff:
		if end, known := shutoffStatuses[libvirt.DomainShutoffReason(reason)]; known {
			return end
		}
		return shutoffStatuses[libvirt.DomainShutoffUnknown]
	case libvirt.DomainCrashed:
		return Status{State: Failed, Cause: causeCrashed}
	case libvirt.DomainPaused:
		if cause, known := pausedCauses[libvirt.DomainPausedReason(reason)]; known {
			return Status{State: Paused, Cause: cause}
		}
		return Status{State: Paused, Cause: Cause{v1alpha1.ReasonPaused, "the domain is paused, and libvirt does not report why"}}
	case libvirt.DomainPmsuspended:
		return Status{State: Paused, Cause: Cause{v1alpha1.ReasonSuspended, "the guest suspended itself to memory"}}
	}
	return Status{State: Running}
}
