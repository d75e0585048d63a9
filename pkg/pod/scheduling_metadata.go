package pod

import (
	"crypto/sha1" //nolint:gosec // KubeVirt's label, which is no secret
	"encoding/hex"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"k8s.io/apimachinery/pkg/util/validation"
	v1 "kubevirt.io/api/core/v1"
)

// Labels and annotations of the VMI are the pod's too: Services, network policies and CNI plugins read them there.

// withheld are prefixes of keys that the pod does not get, each with the reason. A user who may write VMIs need not be allowed to write pods.
var withheld = []struct{ prefix, why string }{
	{v1alpha1.Prefix, "Kiln's own: they are of the VMI"},
	{"kubectl.kubernetes.io/", "of the object that was applied"},
	{v1.IgnitionAnnotation, "it may hold passwords, and the launcher reads it from the VMI"},
	{"kubevirt.io/latest-observed-api-version", "of the VMI"},
	{"kubevirt.io/storage-observed-api-version", "of the VMI"},
	{"container.apparmor.security.beta.kubernetes.io/", "the API server makes a securityContext of it"},
	{"seccomp.security.alpha.kubernetes.io/", "old API servers make a securityContext of it"},
	{"container.seccomp.security.alpha.kubernetes.io/", "old API servers make a securityContext of it"},
	{"cdi.k8s.io/", "the container runtime adds devices of the node by it"},
	{"io.containerd.", "of the container runtime"},
	{"io.kubernetes.cri", "of the container runtime"},
	{"io.katacontainers.", "of the container runtime"},
	{annotationNetworks, "the spec of the VMI names the networks"},
	{annotationDefaultNetwork, "the spec of the VMI names the networks"},
}

// withoutWithheld returns a copy of labels or annotations without the withheld keys.
func withoutWithheld(given map[string]string) map[string]string {
	kept := map[string]string{}
	for key, value := range given {
		keep := true
		for _, w := range withheld {
			keep = keep && !strings.HasPrefix(key, w.prefix)
		}
		if keep {
			kept[key] = value
		}
	}
	return kept
}

// podLabels returns the labels of the VMI, and the labels by which KubeVirt's tools find a launcher's pod.
func (g guest) podLabels() map[string]string {
	labels := withoutWithheld(g.VMI.Labels)
	labels[v1.AppLabel] = "virt-launcher"
	labels[v1.CreatedByLabel] = string(g.VMI.UID)
	labels[v1.DeprecatedVirtualMachineNameLabel] = g.podHostname()
	labels[v1.VirtualMachineInstanceIDLabel] = instanceID(g.VMI.Name)
	return labels
}

// instanceID returns the name of a VMI, cut to the length of a label, as KubeVirt does.
func instanceID(name string) string {
	const digits, most = 8, validation.DNS1035LabelMaxLength
	if len(name) <= most {
		return name
	}
	sum := sha1.Sum([]byte(name)) //nolint:gosec // see the import
	return name[:most-digits-1] + "-" + hex.EncodeToString(sum[:])[:digits]
}

// podAnnotations returns the annotations of the VMI, the name of its domain, and the container that kubectl uses without -c.
func (g guest) podAnnotations() map[string]string {
	annotations := withoutWithheld(g.VMI.Annotations)
	annotations[v1.DomainAnnotation] = g.VMI.Name
	annotations["kubectl.kubernetes.io/default-container"] = Container
	g.addMultusAnnotations(annotations)
	return annotations
}
