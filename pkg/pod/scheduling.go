package pod

import (
	"maps"
	"math"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: nodeSelector, affinity, tolerations, topologySpreadConstraints, priorityClassName, schedulerName, dnsPolicy, dnsConfig, hostname, subdomain,
// architecture, terminationGracePeriodSeconds, evictionStrategy. Labels and annotations are in scheduling_metadata.go, probes in scheduling_probes.go.
// Kubernetes implements all of it: the fields of the VMI are copied into the pod.

var schedulingEffects = []Effect{
	{"evictionStrategy", Warned, "has no effect: a guest is shut down when its node is drained, and not migrated", func(g guest) []int {
		strategy := g.spec.EvictionStrategy
		return onlyIf(strategy != nil && *strategy != v1.EvictionStrategyNone)
	}},
	{"readinessProbe.httpGet.host", Refused, hostReason, func(g guest) []int {
		return onlyIf(httpHost(g.spec.ReadinessProbe))
	}},
	{"readinessProbe.tcpSocket.host", Refused, hostReason, func(g guest) []int {
		return onlyIf(tcpHost(g.spec.ReadinessProbe))
	}},
	{"livenessProbe.httpGet.host", Refused, hostReason, func(g guest) []int {
		return onlyIf(httpHost(g.spec.LivenessProbe))
	}},
	{"livenessProbe.tcpSocket.host", Refused, hostReason, func(g guest) []int {
		return onlyIf(tcpHost(g.spec.LivenessProbe))
	}},
	{"readinessProbe", Refused, slirpProbeReason, func(g guest) []int {
		return onlyIf(g.Network == Slirp && byNetwork(g.spec.ReadinessProbe))
	}},
	{"livenessProbe", Refused, slirpProbeReason, func(g guest) []int {
		return onlyIf(g.Network == Slirp && byNetwork(g.spec.LivenessProbe))
	}},
}

// graceMargin is how many seconds the launcher has to report after the VMI's grace period, before kubelet ends it. KubeVirt's padding is the same.
const graceMargin = 15

// addScheduling adds the fields that decide where and how a pod is scheduled.
func (g guest) addScheduling(spec corev1.PodSpec) corev1.PodSpec {
	spec.NodeSelector = g.nodeSelector()
	spec.Affinity = g.spec.Affinity
	spec.Tolerations = g.spec.Tolerations
	spec.TopologySpreadConstraints = g.spec.TopologySpreadConstraints
	spec.PriorityClassName = g.spec.PriorityClassName
	spec.SchedulerName = g.spec.SchedulerName
	spec.DNSPolicy, spec.DNSConfig = g.spec.DNSPolicy, g.spec.DNSConfig
	spec.Hostname, spec.Subdomain = g.podHostname(), g.spec.Subdomain
	spec.TerminationGracePeriodSeconds = new(g.grace())
	return spec
}

// nodeSelector selects nodes of the VMI's architecture, unless the VMI selects another by itself, as in KubeVirt. It selects the CPU, too: terms of
// affinity.nodeAffinity are alternatives, and the labels would have to be added to each.
func (g guest) nodeSelector() map[string]string {
	selector := map[string]string{}
	if g.spec.Architecture != "" {
		selector[corev1.LabelArchStable] = strings.ToLower(g.spec.Architecture)
	}
	maps.Copy(selector, g.spec.NodeSelector)
	maps.Copy(selector, g.CPULabels)
	g.selectPasstNodes(selector)
	return selector
}

// podHostname returns the hostname of the VMI, else its name up to the first dot, as KubeVirt does.
func (g guest) podHostname() string {
	if g.spec.Hostname != "" {
		return g.spec.Hostname
	}
	name, _, _ := strings.Cut(g.VMI.Name, ".")
	return strings.TrimRight(name[:min(len(name), validation.DNS1123LabelMaxLength)], "-")
}

func (g guest) grace() int64 { return Grace(g.spec.TerminationGracePeriodSeconds) }

// Grace returns the grace period of a pod in seconds for the grace period of its VMI: with a margin, in which the launcher reports. It is never 0, because
// kubelet would kill the launcher at once. It is bounded because Kubernetes bounds the number not at all, and Go's durations end at 292 years.
func Grace(vmi *int64) int64 {
	seconds := ptr.Deref(vmi, v1.DefaultGracePeriodSeconds)
	return min(max(seconds, 0), math.MaxInt32-graceMargin) + graceMargin
}
