package config

import (
	"math"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Pods are the current settings for the pods of guests. They do not change existing pods.
type Pods struct {
	// Emulate is developerConfiguration.useEmulation: guests run without KVM.
	Emulate bool
	// CPUAllocationRatio is developerConfiguration.cpuAllocationRatio, the number of vCPUs for each CPU that a pod requests; 0 if it is not set.
	CPUAllocationRatio int
	// MemoryOvercommit is developerConfiguration.memoryOvercommit, in percent; 0 if it is not set.
	MemoryOvercommit int
	// OverheadRatio is additionalGuestMemoryOverheadRatio; 0 if it is not set.
	OverheadRatio float64
	// StateClass is vmStateStorageClass or, if that is not set, the default StorageClass of the cluster. If it is empty, VMs cannot have EFI variables or TPM
	// state that outlive a pod.
	StateClass string
	// PullPolicy is imagePullPolicy, for the launcher's image. Empty means Kubernetes' default.
	PullPolicy corev1.PullPolicy
	// LimitedCPUs is autoCPULimitNamespaceLabelSelector: in the namespaces that it selects, pods of VMIs without dedicated CPUs have a limit of CPUs. Nil
	// selects no namespace.
	LimitedCPUs *metav1.LabelSelector
}

// Bounds of ratios. KubeVirt has no bounds: a pod whose requests overflow would fit every node.
const (
	mostVCPUsPerCPU = 1000
	mostPercent     = 1000
	mostOverhead    = 100
)

// podSettings reads the settings for pods.
func podSettings(c *Cluster, cfg v1.KubeVirtConfiguration, root *field.Path) (errs field.ErrorList) {
	c.Pods = Pods{StateClass: cfg.VMStateStorageClass, PullPolicy: cfg.ImagePullPolicy, LimitedCPUs: cfg.AutoCPULimitNamespaceLabelSelector}
	if selector := c.Pods.LimitedCPUs; selector != nil {
		errs = append(errs, metavalidation.ValidateLabelSelector(selector, metavalidation.LabelSelectorValidationOptions{},
			root.Child("autoCPULimitNamespaceLabelSelector"))...)
	}
	if name := c.Pods.StateClass; name != "" {
		for _, wrong := range validation.IsDNS1123Subdomain(name) {
			errs = append(errs, field.Invalid(root.Child("vmStateStorageClass"), name, wrong))
		}
	}
	known := []corev1.PullPolicy{corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever}
	if policy := c.Pods.PullPolicy; policy != "" && !slices.Contains(known, policy) {
		errs = append(errs, field.NotSupported(root.Child("imagePullPolicy"), policy, known))
	}
	if text := cfg.AdditionalGuestMemoryOverheadRatio; text != nil {
		ratio, err := strconv.ParseFloat(*text, 64)
		if err != nil || math.IsNaN(ratio) || ratio < 1 || ratio > mostOverhead {
			errs = append(errs, field.Invalid(root.Child("additionalGuestMemoryOverheadRatio"), *text,
				"must be a number from 1 to "+strconv.Itoa(mostOverhead)+", such as '1.25'"))
		}
		c.Pods.OverheadRatio = ratio
	}
	if developer := cfg.DeveloperConfiguration; developer != nil {
		errs = append(errs, c.Pods.readRatios(developer, root.Child("developerConfiguration"))...)
	}
	return errs
}

// readRatios reads developerConfiguration. A value of 0 means the same as an absent value.
func (p *Pods) readRatios(developer *v1.DeveloperConfiguration, at *field.Path) (errs field.ErrorList) {
	p.Emulate, p.CPUAllocationRatio, p.MemoryOvercommit = developer.UseEmulation, developer.CPUAllocationRatio, developer.MemoryOvercommit
	if n := p.CPUAllocationRatio; n < 0 || n > mostVCPUsPerCPU {
		errs = append(errs, field.Invalid(at.Child("cpuAllocationRatio"), n, "must be from 1 to "+strconv.Itoa(mostVCPUsPerCPU)+", or 0 for 10"))
	}
	if n := p.MemoryOvercommit; n != 0 && n < 10 || n > mostPercent {
		errs = append(errs, field.Invalid(at.Child("memoryOvercommit"), n, "must be from 10 to "+strconv.Itoa(mostPercent)+" percent, or 0 for 100"))
	}
	return errs
}
