package guestdiff

import (
	"context"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/render"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// guestPod returns the GuestPod of a guest; nil if it does not exist, as on a bare machine, or the user may not read it.
func guestPod(ctx context.Context, cluster client.Reader, key client.ObjectKey) (*v1alpha1.GuestPod, error) {
	pod := &v1alpha1.GuestPod{}
	if err := cluster.Get(ctx, key, pod); apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	return pod, nil
}

// runningState returns the state of the running guest: what libvirt was started with, and what it has reported since.
func runningState(of *workbench.Reviewed, hardware *v1alpha1.GuestHardware, pod *v1alpha1.GuestPod) State {
	s := State{State: StateRunning, Name: "running", Cause: "no guest runs"}
	if of == nil || hardware == nil || hardware.Status.LastBoot == nil || hardware.Status.LastBoot.UID != of.Guest.Explicit.UID {
		return s
	}
	vmi := of.Guest.Explicit
	s.Digest, s.Cause, s.Time = hardware.Status.LastBoot.Digest, "phase "+string(vmi.Status.Phase), &hardware.Status.LastBoot.Time
	for _, transition := range vmi.Status.PhaseTransitionTimestamps {
		if transition.Phase == vmi.Status.Phase {
			s.Time = &transition.PhaseTransitionTimestamp
		}
	}
	if running := hardware.Status.Running; running != nil && running.UID == vmi.UID {
		s.Digest, s.Cause, s.Time = running.Digest, running.Cause, &running.Time
	}
	if hardware.Spec.Hardware != nil && hardware.Spec.Hardware.Digest == s.Digest {
		s.record = hardware.Spec.Hardware
	}
	if pod == nil || pod.Spec.VMIUID != vmi.UID {
		return s
	}
	if running := hardware.Status.Running; running != nil && running.UID == vmi.UID {
		s.addLiveHardware(vmi, running, pod)
		return s
	}
	if domain := pod.Status.Domain; domain != nil {
		s.Cause = "libvirt: " + string(domain.State)
		if domain.Reason != "" {
			s.Cause += ", " + domain.Reason
		}
	}
	if pod.Spec.Hardware != nil {
		s.XML = pod.Spec.Hardware.Frontend
		if front, err := render.ReadFrontend(s.XML); err == nil && abi.Digest(front) == s.Digest {
			s.frontend = front
		}
	}
	return s
}

// addLiveHardware fills Open and the frontend of the running guest from libvirt's report.
func (s *State) addLiveHardware(vmi *v1.VirtualMachineInstance, running *v1alpha1.HardwareRunning, pod *v1alpha1.GuestPod) {
	if pod.Spec.Hardware == nil {
		return
	}
	front, err := render.ReadFrontend(pod.Spec.Hardware.Frontend)
	if err != nil || render.CheckLive(front, running.LiveHardware) != nil {
		return
	}
	s.Open = render.LiveChanges(running.LiveHardware, render.WantedHardware(vmi, front))
	s.frontend = render.WithLive(front, running.LiveHardware)
	s.XML, _ = s.frontend.Marshal()
}
