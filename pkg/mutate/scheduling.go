package mutate

import (
	"github.com/kilnvm/kiln/pkg/config"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: evictionStrategy, readinessProbe, livenessProbe.

// evictionStrategy is setDefaultEvictionStrategy: the cluster's evictionStrategy.
func evictionStrategy(vmi *v1.VirtualMachineInstance, d config.Defaults) {
	if vmi.Spec.EvictionStrategy == nil && d.EvictionStrategy != nil {
		vmi.Spec.EvictionStrategy = new(*d.EvictionStrategy)
	}
}

// probeDefaults is SetDefaults_Probe: the defaults of Kubernetes' own probes. A number below 1 counts as unset, as in Kubernetes.
func probeDefaults(vmi *v1.VirtualMachineInstance, _ config.Defaults) {
	for _, probe := range []*v1.Probe{vmi.Spec.ReadinessProbe, vmi.Spec.LivenessProbe} {
		if probe == nil {
			continue
		}
		for _, number := range []struct {
			value    *int32
			fallback int32
		}{{&probe.TimeoutSeconds, 1}, {&probe.PeriodSeconds, 10}, {&probe.SuccessThreshold, 1}, {&probe.FailureThreshold, 3}} {
			if *number.value < 1 {
				*number.value = number.fallback
			}
		}
	}
}
