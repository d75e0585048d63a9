package hypervisor

import (
	"testing"

	rpc "github.com/digitalocean/go-libvirt"
)

// TestStatusOf: a domain that is off is PoweredOff only for the reason 'shutdown', and never active; a paused domain has a reason.
func TestStatusOf(t *testing.T) {
	t.Parallel()
	for reason := range int32(20) {
		status := statusOf(int32(rpc.DomainShutoff), reason)
		off := rpc.DomainShutoffReason(reason) == rpc.DomainShutoffShutdown
		if (status.State == PoweredOff) != off || status.Active() || status.Cause.Reason == "" || status.Cause.Message == "" {
			t.Errorf("shut off for reason %d is %+v", reason, status)
		}
		if status := statusOf(int32(rpc.DomainPaused), reason); status.State != Paused || status.Cause.Reason == "" || status.Cause.Message == "" {
			t.Errorf("paused for reason %d is %+v", reason, status)
		}
	}
	for state, want := range map[rpc.DomainState]State{
		rpc.DomainRunning: Running, rpc.DomainBlocked: Running, rpc.DomainShutdown: Running, rpc.DomainCrashed: Failed, rpc.DomainPmsuspended: Paused,
	} {
		if got := statusOf(int32(state), 1); got.State != want {
			t.Errorf("state %d is %+v, want %d", state, got, want)
		}
	}
}
