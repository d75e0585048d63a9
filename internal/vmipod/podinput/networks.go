package podinput

import (
	"context"
	"fmt"
	"strings"

	"github.com/kilnvm/kiln/pkg/pod"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// NetworkAttachmentDefinition is the kind of Multus' networks.
var NetworkAttachmentDefinition = schema.GroupVersionKind{Group: "k8s.cni.cncf.io", Version: "v1", Kind: "NetworkAttachmentDefinition"}

// networkResources returns which resource the pod must request for each NetworkAttachmentDefinition of a VMI's networks, by the name in the VMI. It has no
// entry for a definition that does not exist, and none at all if Multus is not installed.
func (r Reader) networkResources(ctx context.Context, vmi *v1.VirtualMachineInstance) (map[string]string, error) {
	resources := map[string]string{}
	for i := range vmi.Spec.Networks {
		multus := vmi.Spec.Networks[i].Multus
		if !pod.HasDefinition(&vmi.Spec.Networks[i]) {
			continue
		}
		if _, known := resources[multus.NetworkName]; known {
			continue
		}
		namespace, name := pod.NetworkAttachmentDefinition(vmi.Namespace, multus.NetworkName)
		if !IsPossibleName(namespace) || !IsPossibleName(name) {
			continue
		}
		definition, err := r.NetworkDefinition(ctx, client.ObjectKey{Namespace: namespace, Name: name})
		if err != nil {
			return nil, err
		}
		if definition != nil {
			resources[multus.NetworkName] = strings.TrimSpace(definition.Annotations[pod.AnnotationResource])
		}
	}
	return resources, nil
}

// NetworkDefinition returns the metadata of a NetworkAttachmentDefinition, nil if it does not exist or Multus is not installed. The spec, which is the
// configuration of a CNI plugin, is not needed.
func (r Reader) NetworkDefinition(ctx context.Context, key client.ObjectKey) (*metav1.PartialObjectMetadata, error) {
	definition := &metav1.PartialObjectMetadata{}
	definition.SetGroupVersionKind(NetworkAttachmentDefinition)
	err := r.Live.Get(ctx, key, definition)
	switch {
	case apierrors.IsNotFound(err) || meta.IsNoMatchError(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading NetworkAttachmentDefinition '%s': %w", key, err)
	}
	return definition, nil
}

// IsPossibleName reports whether an object can have a name that a tenant wrote. The client refuses to read an object by another name.
func IsPossibleName(name string) bool { return name != "" && len(content.IsPathSegmentName(name)) == 0 }
