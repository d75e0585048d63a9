package render

import (
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// CauseStarted is the cause of the hardware that a guest was started with.
const CauseStarted = "the guest was started"

// Observed returns state 4 of a guest: what libvirt runs, with digest, cause and time. was is what was observed before, nil if nothing was. While the same VMI
// has the same hardware, the cause and the time are those of was. The cause may be longer than the API holds.
func Observed(was *v1alpha1.HardwareRunning, front Front, live v1alpha1.LiveHardware, vmi types.UID, now metav1.Time) v1alpha1.HardwareRunning {
	running := v1alpha1.HardwareRunning{LiveHardware: live, UID: vmi, Digest: abi.Digest(WithLive(front, live)), Cause: CauseStarted, Time: now}
	switch {
	case was == nil || was.UID != vmi:
	case was.Digest == running.Digest && equality.Semantic.DeepEqual(was.LiveHardware, live):
		running.Cause, running.Time = was.Cause, was.Time
	default:
		running.Cause = LiveChanges(was.LiveHardware, live)
	}
	return running
}
