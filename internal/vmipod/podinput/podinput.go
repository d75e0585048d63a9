// Package podinput reads from the cluster what the pod of a VMI depends on.
package podinput

import (
	"context"
	"fmt"
	"slices"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/nodecpu"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/ownership"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/pod"
	"github.com/kilnvm/kiln/pkg/record"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Reader reads the inputs of pods.
type Reader struct {
	Cache client.Reader
	// Live reads past the cache.
	Live          client.Reader
	Configuration config.Cluster
	// Settings are the settings of pods from flags. The configuration has the others.
	Settings pod.Settings
	// DemandOnly leaves out the hardware record, the labels of the CPU and what fills the claims: condition Placeable judges the CPU by NeededCPU.
	DemandOnly bool
}

// Read returns the input of the pod of a VMI, without its KeySecret.
func (r Reader) Read(ctx context.Context, vmi *v1.VirtualMachineInstance) (in pod.Input, err error) {
	in = pod.Input{VMI: vmi, Settings: SettingsOf(r.Configuration, r.Settings)}
	if !r.DemandOnly {
		if in.Record, err = r.readRecord(ctx, vmi); err != nil {
			return in, err
		}
		if in.CPULabels, err = r.labelsOfCPU(ctx, in); err != nil {
			return in, err
		}
	}
	if in.Claims, err = r.readClaims(ctx, vmi); err != nil {
		return in, err
	}
	if in.NetworkResources, err = r.networkResources(ctx, vmi); err != nil {
		return in, err
	}
	in.LimitsDemanded, err = r.demandedLimits(ctx, vmi.Namespace)
	return in, err
}

// SettingsOf returns the settings of flags, completed by the settings of the configuration.
func SettingsOf(configuration config.Cluster, flags pod.Settings) pod.Settings {
	settings, pods := flags, configuration.Pods
	settings.Emulate, settings.CPUAllocationRatio, settings.MemoryOvercommit = pods.Emulate, pods.CPUAllocationRatio, pods.MemoryOvercommit
	settings.OverheadRatio, settings.StateClass, settings.PullPolicy = pods.OverheadRatio, pods.StateClass, pods.PullPolicy
	settings.PermittedHostDevices = configuration.Limits.PermittedHostDevices
	return settings
}

// readRecord returns the hardware record with which the guest will start, nil at its first boot. It is also nil if the GuestHardware belongs to another guest,
// or if the record is invalid: stage 2 reports that.
func (r Reader) readRecord(ctx context.Context, vmi *v1.VirtualMachineInstance) (*record.Record, error) {
	if vmi.Annotations[v1alpha1.AnnotationHardware] == v1alpha1.HardwareLatest {
		return nil, nil
	}
	hardware, err := ownership.ReadHardware(ctx, r.Live, client.ObjectKeyFromObject(vmi))
	if err != nil || hardware == nil {
		return nil, err
	}
	guest := ownership.Guest{VMI: vmi.UID, Identity: vmi.Annotations[v1alpha1.AnnotationIdentity]}
	if owner := metav1.GetControllerOf(vmi); owner != nil && owner.Kind == v1.VirtualMachineGroupVersionKind.Kind {
		guest.VM = owner.UID
	}
	if guest.Ownership(hardware) != ownership.Own || record.Check(hardware.Spec.Hardware) != nil {
		return nil, nil
	}
	return hardware.Spec.Hardware, nil
}

// NeededCPU returns what the guest of a VMI needs of the CPU of its node. Only a guest with host-model needs its record for it.
func (r Reader) NeededCPU(ctx context.Context, vmi *v1.VirtualMachineInstance) (nodecpu.Need, error) {
	var recorded *record.Record
	if cpu := vmi.Spec.Domain.CPU; cpu != nil && cpu.Model == v1.CPUModeHostModel {
		var err error
		if recorded, err = r.readRecord(ctx, vmi); err != nil {
			return nodecpu.Need{}, err
		}
	}
	return nodecpu.NeedOf(&vmi.Spec, recorded, r.Configuration.Pods.Emulate), nil
}

// labelsOfCPU returns the labels of the nodes that offer the CPU of a guest. It returns none if no node reports its CPU: then nobody knows better than libvirt
// at the start.
func (r Reader) labelsOfCPU(ctx context.Context, in pod.Input) (map[string]string, error) {
	need := nodecpu.NeedOf(&in.VMI.Spec, in.Record, in.Emulate)
	if need.IsZero() {
		return nil, nil
	}
	var nodes corev1.NodeList
	if err := r.Cache.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	if !nodecpu.NewFleet(nodes.Items).Selects(need) {
		return nil, nil
	}
	return need.Labels(), nil
}

// demandedLimits returns the resources for which the containers of a namespace must have limits, because a ResourceQuota bounds the limits, or because the
// configuration selects the namespace for limits of CPUs.
func (r Reader) demandedLimits(ctx context.Context, namespace string) (demanded []corev1.ResourceName, err error) {
	var quotas corev1.ResourceQuotaList
	if err := r.Live.List(ctx, &quotas, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing ResourceQuotas: %w", err)
	}
	for _, resource := range []struct{ limit, name corev1.ResourceName }{
		{corev1.ResourceLimitsCPU, corev1.ResourceCPU}, {corev1.ResourceLimitsMemory, corev1.ResourceMemory},
	} {
		if slices.ContainsFunc(quotas.Items, func(q corev1.ResourceQuota) bool { _, set := q.Spec.Hard[resource.limit]; return set }) {
			demanded = append(demanded, resource.name)
		}
	}
	limited, err := r.limitsCPUs(ctx, namespace)
	if err == nil && limited && !slices.Contains(demanded, corev1.ResourceCPU) {
		demanded = append(demanded, corev1.ResourceCPU)
	}
	return demanded, err
}

// limitsCPUs reports whether autoCPULimitNamespaceLabelSelector of the configuration selects a namespace.
func (r Reader) limitsCPUs(ctx context.Context, namespace string) (bool, error) {
	chosen := r.Configuration.Pods.LimitedCPUs
	if chosen == nil {
		return false, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(chosen)
	if err != nil {
		return false, err // the configuration is validated when it is read
	}
	found, err := objects.GetOrNil(ctx, r.Cache, types.NamespacedName{Name: namespace}, &corev1.Namespace{})
	return found != nil && selector.Matches(labels.Set(found.Labels)), err
}
