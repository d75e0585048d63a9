package hypervisor

import (
	"github.com/digitalocean/go-libvirt"
)

// State is what has become of a domain.
type State int

// States of a domain, as far as a VMI's phase can tell them apart.
const (
	// Undefined is a domain that libvirt does not know.
	Undefined State = iota
	// Inactive is one that is defined, and has not run since libvirt was started or failed to start.
	Inactive
	// PoweredOff is one whose guest has powered off.
	PoweredOff
	// Destroyed is one that was ended from outside: by Kiln for the VMI's owner, or by hand.
	Destroyed
	// Failed is one whose guest has ended otherwise.
	Failed
	// Paused is one that is there and executes nothing.
	Paused
	// Running is one that runs.
	Running
)

// Status is a domain's state, and why it is in it.
type Status struct {
	State State
	Cause Cause
}

// Active reports whether the domain has a QEMU: libvirt calls such a domain active.
func (s Status) Active() bool { return s.State == Running || s.State == Paused }

// Cause is why a guest does not run, as a condition or an event says it.
type Cause struct{ Reason, Message string }

// Causes that libvirt has no reason for.
var (
	causeGone      = Cause{"DomainGone", "libvirt no longer knows the guest's domain: it was undefined on its machine, or the machine was set up anew"}
	causeUnknown   = Cause{"EndedWithHost", "the guest is off, and libvirt does not know why: its machine or libvirt was started anew while the guest ran"}
	causeCrashed   = Cause{"Crashed", "the guest's kernel has panicked, or its QEMU has crashed or was killed, as the kernel of a machine does that runs out of memory"}
	causeSignalled = Cause{"EndedWithHost", "the guest's QEMU was ended by a signal, as when its machine shuts down"}
)

// shutoff are the ends of guests, by libvirt's reason of a domain that is shut off. Only a guest that powers off by itself
// has succeeded.
var shutoff = map[libvirt.DomainShutoffReason]Status{
	libvirt.DomainShutoffUnknown:  {Inactive, causeUnknown},
	libvirt.DomainShutoffShutdown: {PoweredOff, Cause{"PoweredOff", "the guest has powered off"}},
	libvirt.DomainShutoffDestroyed: {Destroyed, Cause{"Destroyed",
		"the guest was destroyed on its machine, by hand or by a program of the machine"}},
	libvirt.DomainShutoffCrashed:  {Failed, causeCrashed},
	libvirt.DomainShutoffMigrated: {Failed, Cause{"Migrated", "the guest was migrated to another machine by hand, where Kiln does not follow it"}},
	libvirt.DomainShutoffSaved:    {Failed, Cause{"Saved", "the guest was saved to a file of its machine by hand, and does not run any more"}},
	libvirt.DomainShutoffFailed:   {Inactive, Cause{"StartFailed", "libvirt could not start or resume the guest"}},
	libvirt.DomainShutoffFromSnapshot: {Failed, Cause{"Reverted",
		"the guest was reverted by hand to a snapshot in which it does not run"}},
	libvirt.DomainShutoffDaemon: {Failed, Cause{"EndedByLibvirt", "libvirt has ended the guest when it was itself started anew"}},
}

// paused are the reasons of a domain that is paused. The first is KubeVirt's.
var paused = map[libvirt.DomainPausedReason]Cause{
	libvirt.DomainPausedUser:           {"PausedByUser", "the guest is paused: it was started so (spec.startStrategy), or suspended on its machine"},
	libvirt.DomainPausedMigration:      {"PausedForMigration", "the guest is paused while it is migrated by hand"},
	libvirt.DomainPausedSave:           {"PausedForSave", "the guest is paused while it is saved to a file of its machine"},
	libvirt.DomainPausedDump:           {"PausedForDump", "the guest is paused while its memory is dumped"},
	libvirt.DomainPausedIoerror:        {"PausedIOError", "the guest is paused since one of its disks cannot be read or written: the disk may be full, or its server gone"},
	libvirt.DomainPausedWatchdog:       {"PausedByWatchdog", "the guest is paused since its watchdog has expired"},
	libvirt.DomainPausedFromSnapshot:   {"PausedFromSnapshot", "the guest is paused since it was reverted to a snapshot in which it was"},
	libvirt.DomainPausedShuttingDown:   {"PausedShuttingDown", "the guest is paused while it shuts down"},
	libvirt.DomainPausedSnapshot:       {"PausedForSnapshot", "the guest is paused while a snapshot is taken"},
	libvirt.DomainPausedCrashed:        {"PausedCrashed", "the guest's kernel has panicked, and the guest is paused"},
	libvirt.DomainPausedStartingUp:     {"PausedStartingUp", "the guest is being started"},
	libvirt.DomainPausedPostcopy:       {"PausedForMigration", "the guest is paused while it is migrated by hand"},
	libvirt.DomainPausedPostcopyFailed: {"PausedMigrationFailed", "the guest is paused since its migration by hand has failed"},
}

// statusOf reads libvirt's answer.
func statusOf(state, reason int32) Status {
	switch libvirt.DomainState(state) {
	case libvirt.DomainShutoff:
		if end, known := shutoff[libvirt.DomainShutoffReason(reason)]; known {
			return end
		}
		return shutoff[libvirt.DomainShutoffUnknown]
	case libvirt.DomainCrashed:
		return Status{Failed, causeCrashed}
	case libvirt.DomainPaused:
		if cause, known := paused[libvirt.DomainPausedReason(reason)]; known {
			return Status{Paused, cause}
		}
		return Status{Paused, Cause{"Paused", "the guest is paused, and libvirt does not know why"}}
	case libvirt.DomainPmsuspended:
		return Status{Paused, Cause{"Suspended", "the guest has suspended itself to memory"}}
	}
	return Status{State: Running}
}
