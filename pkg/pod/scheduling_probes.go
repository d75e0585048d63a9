package pod

import (
	"math"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: readinessProbe, livenessProbe.
// kubelet probes the pod's address, which passt makes the guest's. A command, and a ping of the guest agent, are asked of the launcher: it runs in the
// container, and reaches the guest agent through libvirt.

// Words of the launcher's command line: 'probe ping' succeeds if the guest agent answers, 'probe exec' if a command in the guest does.
const (
	Launcher     = "/launcher"
	ProbeCommand = "probe"
	ProbePing    = "ping"
	ProbeExec    = "exec"
	// ProbeTimeout is the flag with the number of seconds in which the guest must answer.
	ProbeTimeout = "--timeout"
)

const (
	// startDelay is how many seconds a domain needs to start. KubeVirt adds the same.
	startDelay = 10
	// execMargin is how many seconds a command has more in the pod than in the guest. KubeVirt adds the same.
	execMargin = 1

	hostReason       = "is another host, which profile restricted forbids to probes: remove it, and the guest is probed"
	slirpProbeReason = "never succeeds: nothing reaches a guest whose network is slirp. Use exec or guestAgentPing"
)

// httpHost and tcpHost report whether a probe names a host.
func httpHost(p *v1.Probe) bool { return p != nil && p.HTTPGet != nil && p.HTTPGet.Host != "" }

func tcpHost(p *v1.Probe) bool { return p != nil && p.TCPSocket != nil && p.TCPSocket.Host != "" }

// byNetwork reports whether a probe must reach the guest by its network.
func byNetwork(probe *v1.Probe) bool {
	return probe != nil && (probe.HTTPGet != nil || probe.TCPSocket != nil)
}

// containerProbe returns the probe of the container for a probe of the guest.
func (g guest) containerProbe(p *v1.Probe) *corev1.Probe {
	if p == nil {
		return nil
	}
	out := &corev1.Probe{
		ProbeHandler:        corev1.ProbeHandler{Exec: p.Exec, HTTPGet: p.HTTPGet, TCPSocket: p.TCPSocket},
		InitialDelaySeconds: addSeconds(p.InitialDelaySeconds, startDelay), TimeoutSeconds: p.TimeoutSeconds, PeriodSeconds: p.PeriodSeconds,
		SuccessThreshold: p.SuccessThreshold, FailureThreshold: p.FailureThreshold,
	}
	if p.Exec == nil && p.GuestAgentPing == nil {
		return out
	}
	command := []string{Launcher, ProbeCommand, ProbePing, ProbeTimeout, strconv.Itoa(int(p.TimeoutSeconds))}
	if p.Exec != nil {
		command[2] = ProbeExec
		command = append(append(command, "--"), p.Exec.Command...)
	}
	out.Exec, out.TimeoutSeconds = &corev1.ExecAction{Command: command}, addSeconds(p.TimeoutSeconds, execMargin)
	return out
}

// addSeconds adds seconds to a number that a tenant wrote.
func addSeconds(seconds, more int32) int32 { return min(max(seconds, 0), math.MaxInt32-more) + more }
