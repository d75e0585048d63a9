package vmipod

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

var networkAttachmentDefinition = schema.GroupVersionKind{Group: "k8s.cni.cncf.io", Version: "v1", Kind: "NetworkAttachmentDefinition"}

// networkResources reads which resources the NetworkAttachmentDefinitions of a VMI's networks ask pods to request. One that does not exist is missing in the
// answer, and so are all where Multus is not installed.
func (c *Controller) networkResources(ctx context.Context, vmi *v1.VirtualMachineInstance) (map[string]string, error) {
	resources := map[string]string{}
	for i := range vmi.Spec.Networks {
		multus := vmi.Spec.Networks[i].Multus
		if !pod.Defined(&vmi.Spec.Networks[i]) {
			continue
		}
		if _, known := resources[multus.NetworkName]; known {
			continue
		}
		namespace, name := pod.NetworkAttachmentDefinition(vmi.Namespace, multus.NetworkName)
		if !possible(namespace) || !possible(name) {
			continue
		}
		definition, err := c.networkDefinition(ctx, client.ObjectKey{Namespace: namespace, Name: name})
		if err != nil {
			return nil, err
		}
		if definition != nil {
			resources[multus.NetworkName] = strings.TrimSpace(definition.Annotations[pod.AnnotationResource])
		}
	}
	return resources, nil
}

// networkDefinition returns the metadata of a NetworkAttachmentDefinition, nil if it does not exist or Multus is not installed. The configuration of a CNI
// plugin is of no use here, and not ours to interpret.
func (c *Controller) networkDefinition(ctx context.Context, key client.ObjectKey) (*metav1.PartialObjectMetadata, error) {
	definition := &metav1.PartialObjectMetadata{}
	definition.SetGroupVersionKind(networkAttachmentDefinition)
	err := c.Live.Get(ctx, key, definition)
	switch {
	case apierrors.IsNotFound(err) || meta.IsNoMatchError(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading NetworkAttachmentDefinition '%s': %w", key, err)
	}
	return definition, nil
}

// possible reports whether an object can have a name that a tenant wrote: the client refuses to ask for others.
func possible(name string) bool { return name != "" && len(content.IsPathSegmentName(name)) == 0 }
