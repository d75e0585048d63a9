package subresource

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
)

// Actions on a running guest. Its launcher carries them out, and answers when they are done.

func (a *API) pauseGuest(ctx context.Context, c call) (reply, error) {
	options := &v1.PauseOptions{}
	if err := c.decodeBody(options); err != nil {
		return reply{}, err
	}
	return a.requestAction(ctx, c, "pause", options.DryRun, func(vmi *v1.VirtualMachineInstance) error {
		switch probe := vmi.Spec.LivenessProbe; {
		case vmi.DeletionTimestamp != nil:
			return refuseStopping(vmi)
		case probe != nil && probe.GuestAgentPing == nil:
			return apierrors.NewForbidden(v1.Resource("virtualmachineinstance"), vmi.Name,
				vmConflict(vmi.Name, "Pausing VMIs with a non-GuestAgentPing LivenessProbe is not supported: the probe would fail, and end the guest"))
		case hasCondition(vmi, v1.VirtualMachineInstancePaused):
			return vmiConflict(vmi.Name, "VMI is already paused")
		}
		return nil
	})
}

func (a *API) unpauseGuest(ctx context.Context, c call) (reply, error) {
	options := &v1.UnpauseOptions{}
	if err := c.decodeBody(options); err != nil {
		return reply{}, err
	}
	return a.requestAction(ctx, c, "unpause", options.DryRun, func(vmi *v1.VirtualMachineInstance) error {
		if !hasCondition(vmi, v1.VirtualMachineInstancePaused) {
			return vmiConflict(vmi.Name, "VMI is not paused")
		}
		vm, err := c.readVM(ctx, a.Live)
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err == nil && vm.Status.SnapshotInProgress != nil:
			return vmConflict(c.name, "VM snapshot is in progress: '%s'", *vm.Status.SnapshotInProgress)
		}
		return err
	})
}

func (a *API) resetGuest(ctx context.Context, c call) (reply, error) {
	return a.requestAction(ctx, c, "reset", nil, notStopping)
}

func (a *API) softReboot(ctx context.Context, c call) (reply, error) {
	return a.requestAction(ctx, c, "softreboot", nil, func(vmi *v1.VirtualMachineInstance) error {
		acpi := vmi.Spec.Domain.Features == nil || ptr.Deref(vmi.Spec.Domain.Features.ACPI.Enabled, true)
		switch {
		case vmi.DeletionTimestamp != nil:
			return refuseStopping(vmi)
		case hasCondition(vmi, v1.VirtualMachineInstancePaused):
			return vmiConflict(vmi.Name, "VMI is paused")
		case !acpi && !hasCondition(vmi, v1.VirtualMachineInstanceAgentConnected):
			return vmiConflict(vmi.Name, "VMI neither have the agent connected nor the ACPI feature enabled")
		}
		return nil
	})
}

func (a *API) freezeGuest(ctx context.Context, c call) (reply, error) {
	options := &v1.FreezeUnfreezeTimeout{}
	if err := c.decodeBody(options); err != nil {
		return reply{}, err
	}
	vmi, err := c.readRunningVMI(ctx, a.Live)
	if err == nil {
		err = notStopping(vmi)
	}
	if err != nil {
		return reply{}, err
	}
	return done, a.Guests.Put(ctx, vmi, "freeze", options)
}

func (a *API) unfreezeGuest(ctx context.Context, c call) (reply, error) {
	return a.requestAction(ctx, c, "unfreeze", nil, anyGuest)
}

// notStopping refuses an action that would keep a guest from powering off, so that it would be killed at the end of its grace period.
func notStopping(vmi *v1.VirtualMachineInstance) error {
	if vmi.DeletionTimestamp != nil {
		return refuseStopping(vmi)
	}
	return nil
}

func refuseStopping(vmi *v1.VirtualMachineInstance) error {
	return vmiConflict(vmi.Name, "VMI is being stopped: wait until it has, or end it now with 'stop --force --grace-period=0'")
}

// anyGuest allows an action on every running guest.
func anyGuest(*v1.VirtualMachineInstance) error { return nil }

// requestAction calls the launcher of a running guest for an action, unless judge refuses it. A dry run ends before the call.
func (a *API) requestAction(ctx context.Context, c call, action string, dry []string, judge func(*v1.VirtualMachineInstance) error) (reply, error) {
	dry, err := dryRun(dry)
	if err != nil {
		return reply{}, err
	}
	vmi, err := c.readRunningVMI(ctx, a.Live)
	if err != nil {
		return reply{}, err
	}
	if err := judge(vmi); err != nil || len(dry) > 0 {
		return done, err
	}
	return done, a.Guests.Put(ctx, vmi, action, nil)
}

func (a *API) guestOSInfo(ctx context.Context, c call) (reply, error) {
	return answerGuestReport[v1.VirtualMachineInstanceGuestAgentInfo](ctx, a, c, "guestosinfo")
}

func (a *API) userList(ctx context.Context, c call) (reply, error) {
	return answerGuestReport[v1.VirtualMachineInstanceGuestOSUserList](ctx, a, c, "userlist")
}

func (a *API) filesystemList(ctx context.Context, c call) (reply, error) {
	return answerGuestReport[v1.VirtualMachineInstanceFileSystemList](ctx, a, c, "filesystemlist")
}

// answerGuestReport answers with a report of the guest agent. Do not trust its values: a user who is root in the guest may replace the agent.
func answerGuestReport[T any](ctx context.Context, a *API, c call, path string) (reply, error) {
	vmi, err := c.readRunningVMI(ctx, a.Live)
	if err != nil {
		return reply{}, err
	}
	if !hasCondition(vmi, v1.VirtualMachineInstanceAgentConnected) {
		return reply{}, vmiConflict(c.name, "VMI does not have guest agent connected")
	}
	answer := new(T)
	if err := a.Guests.Get(ctx, vmi, path, answer); err != nil {
		return reply{}, err
	}
	return objectReply(answer), nil
}
