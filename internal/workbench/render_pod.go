package workbench

import (
	"context"
	"fmt"
	"strings"

	"github.com/kilnvm/kiln/internal/vmipod/podinput"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/identity"
	"github.com/kilnvm/kiln/pkg/pod"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// StagePod is the stage of a rendering that is the pod of the guest.
const StagePod = "pod"

// assumedStateClass stands for the default StorageClass of a cluster.
const assumedStateClass = "standard"

// RenderPod returns the pod in which Kiln's controller would run a guest, with the settings that the flags of the controller would set. Claims and
// NetworkAttachmentDefinitions are read from the inputs or the cluster; what cannot be read is assumed, and the notes name it. If no pod can run the guest, the
// error is a Refusal.
func (b *Bench) RenderPod(ctx context.Context, r Reviewed, flags pod.Settings) (*corev1.Pod, Notes, error) {
	guest := r.Guest
	if guest.Input.Cluster.Limits.KubeVirtGuests {
		return nil, Notes{}, fmt.Errorf("KubeVirt runs the guests here, and its virt-controller makes their pods: use --runtime %s", config.RuntimePod)
	}
	if guest.Unreadable != nil {
		return nil, Notes{}, fmt.Errorf("which hardware the guest had before is not known: %w", guest.Unreadable)
	}
	vmi := guest.Explicit.DeepCopy()
	if guest.Recorded != nil {
		identity.Recall(vmi, guest.Recorded)
	}
	identity.Fill(vmi, identity.Seed(vmi))
	in := pod.Input{VMI: vmi, Record: guest.Recorded, Settings: podinput.SettingsOf(guest.Input.Cluster, flags)}
	var assumed []string
	if in.StateClass == "" {
		in.StateClass = assumedStateClass
	}
	in.Claims, assumed = b.podClaims(ctx, r)
	resources, more := b.podNetworks(ctx, r)
	in.NetworkResources, assumed = resources, append(assumed, more...)
	made, errs := pod.New(in)
	notes := Notes{Warnings: made.Warnings}
	if len(assumed) > 0 {
		notes.Warnings = append(notes.Warnings, "not read, and assumed: "+strings.Join(assumed, ", "))
	}
	return made.Pod, notes, RefusalOf(r, "", errs)
}

// podClaims returns the claims of the guest's volumes. A claim that cannot be read is assumed to be a file system that is filled.
func (b *Bench) podClaims(ctx context.Context, r Reviewed) (claims map[string]pod.Claim, assumed []string) {
	claims = map[string]pod.Claim{}
	for i := range r.Guest.Explicit.Spec.Volumes {
		name := podinput.ClaimName(&r.Guest.Explicit.Spec.Volumes[i])
		if _, known := claims[name]; known || name == "" {
			continue
		}
		var found corev1.PersistentVolumeClaim
		if err := r.Inputs.Reader.Get(ctx, client.ObjectKey{Namespace: r.GetNamespace(), Name: name}, &found); err != nil {
			claims[name], assumed = pod.Claim{}, append(assumed, fmt.Sprintf("PersistentVolumeClaim '%s' (volumeMode Filesystem)", name))
			continue
		}
		claims[name] = podinput.ClaimOf(&found)
	}
	return claims, assumed
}

// podNetworks returns the resources of the guest's NetworkAttachmentDefinitions. One that cannot be read is assumed to ask for no resource, except the
// definition of an interface with sriov, which is given to the pod as a resource.
func (b *Bench) podNetworks(ctx context.Context, r Reviewed) (resources map[string]string, assumed []string) {
	resources = map[string]string{}
	spec := &r.Guest.Explicit.Spec
	passed := map[string]bool{}
	for i := range spec.Domain.Devices.Interfaces {
		passed[spec.Domain.Devices.Interfaces[i].Name] = spec.Domain.Devices.Interfaces[i].SRIOV != nil
	}
	for i := range spec.Networks {
		multus := spec.Networks[i].Multus
		if multus == nil || !pod.HasDefinition(&spec.Networks[i]) {
			continue
		}
		namespace, name := pod.NetworkAttachmentDefinition(r.GetNamespace(), multus.NetworkName)
		reader := podinput.Reader{Live: r.Inputs.Reader}
		definition, err := reader.NetworkDefinition(ctx, client.ObjectKey{Namespace: namespace, Name: name})
		if err == nil && definition != nil {
			resources[multus.NetworkName] = strings.TrimSpace(definition.Annotations[pod.AnnotationResource])
			continue
		}
		resources[multus.NetworkName] = ""
		if passed[spec.Networks[i].Name] {
			resources[multus.NetworkName] = assumedResource + name
		}
		assumed = append(assumed, fmt.Sprintf("NetworkAttachmentDefinition '%s/%s'", namespace, name))
	}
	return resources, assumed
}

// assumedResource is the domain of the resources of NetworkAttachmentDefinitions that cannot be read.
const assumedResource = "example.com/"
