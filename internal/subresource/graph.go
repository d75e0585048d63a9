package subresource

import (
	"cmp"
	"context"
	"strings"

	"github.com/kilnvm/kiln/pkg/instancetype"
	"github.com/kilnvm/kiln/pkg/pod"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
)

// objectgraph answers with the objects that a VM or VMI depends on, as a tree: for a backup, or to find what a restore in another cluster needs. It reads
// only the VM, the VMI and its pod, and names the other objects as the specs name them. So a caller learns no more than the spec contains.

// labelDependency is KubeVirt's label of a node: storage, network, compute or config.
const labelDependency = "kubevirt.io/dependency-type"

// dependency is the kind of a node, with its group and the value of labelDependency.
type dependency struct{ group, kind, of string }

var (
	dependsVM       = dependency{v1.GroupVersion.Group, "VirtualMachine", "compute"}
	dependsVMI      = dependency{v1.GroupVersion.Group, "VirtualMachineInstance", "compute"}
	dependsPod      = dependency{"", "Pod", "compute"}
	dependsVolume   = dependency{"cdi.kubevirt.io", "DataVolume", "storage"}
	dependsClaim    = dependency{"", "PersistentVolumeClaim", "storage"}
	dependsConfig   = dependency{"", "ConfigMap", "config"}
	dependsSecret   = dependency{"", "Secret", "config"}
	dependsAccount  = dependency{"", "ServiceAccount", "config"}
	dependsRevision = dependency{"apps", "ControllerRevision", "config"}
	dependsNetwork  = dependency{"k8s.cni.cncf.io", "NetworkAttachmentDefinition", "network"}
)

func (a *API) graphOfVM(ctx context.Context, c call) (reply, error) {
	vm, err := c.readVM(ctx, a.Live)
	if err != nil {
		return reply{}, err
	}
	if vm.Spec.Template == nil {
		return reply{}, invalidVM(vm.Name, field.ErrorList{field.Required(field.NewPath("spec", "template"), "the VM has nothing to boot")})
	}
	g := graph{namespace: c.namespace}
	var children []v1.ObjectGraphNode
	if vm.Status.Created {
		children = append(children, g.newNode(dependsVMI, vm.Name, a.podNode(ctx, c)...))
	}
	if matcher := vm.Spec.Instancetype; matcher != nil {
		children = append(children, g.matcherNodes(matcher, instancetype.Kinds.Cluster, vm.Status.InstancetypeRef)...)
	}
	if matcher := vm.Spec.Preference; matcher != nil {
		children = append(children, g.matcherNodes(matcher, instancetype.PreferenceKinds.Cluster, vm.Status.PreferenceRef)...)
	}
	children = append(children, g.specNodes(&vm.Spec.Template.Spec)...)
	return answerGraph(c, g.newNode(dependsVM, vm.Name, children...))
}

func (a *API) graphOfVMI(ctx context.Context, c call) (reply, error) {
	vmi, err := c.readVMI(ctx, a.Live)
	if err != nil {
		return reply{}, err
	}
	g := graph{namespace: c.namespace}
	return answerGraph(c, g.newNode(dependsVMI, vmi.Name, append(a.podNode(ctx, c), g.specNodes(&vmi.Spec)...)...))
}

// podNode returns the node of the VMI's pod; nil if the pod cannot be read.
func (a *API) podNode(ctx context.Context, c call) []v1.ObjectGraphNode {
	found, key := &corev1.Pod{}, c.objectKey()
	key.Name = pod.Name(c.name)
	if a.Live.Get(ctx, key, found) != nil {
		return nil
	}
	return []v1.ObjectGraphNode{graph{namespace: c.namespace}.newNode(dependsPod, found.Name)}
}

// answerGraph answers with the nodes that the options of the request select.
func answerGraph(c call, root v1.ObjectGraphNode) (reply, error) {
	options := &v1.ObjectGraphOptions{}
	if err := c.decodeBody(options); err != nil {
		return reply{}, err
	}
	selector, err := metav1.LabelSelectorAsSelector(ptr.To(ptr.Deref(options.LabelSelector, metav1.LabelSelector{})))
	if err != nil {
		return reply{}, apierrors.NewBadRequest("labelSelector: " + err.Error())
	}
	root.Children = selectNodes(root.Children, selector, ptr.Deref(options.IncludeOptionalNodes, true))
	return objectReply(root), nil
}

func selectNodes(nodes []v1.ObjectGraphNode, selector labels.Selector, optional bool) []v1.ObjectGraphNode { //nolint:revive // a field of the request
	kept := []v1.ObjectGraphNode{}
	for _, node := range nodes {
		if ptr.Deref(node.Optional, false) && !optional || !selector.Matches(labels.Set(node.Labels)) {
			continue
		}
		node.Children = selectNodes(node.Children, selector, optional)
		kept = append(kept, node)
	}
	return kept
}

// graph makes nodes of objects in a namespace.
type graph struct{ namespace string }

func (g graph) newNode(kind dependency, name string, children ...v1.ObjectGraphNode) v1.ObjectGraphNode {
	return v1.ObjectGraphNode{
		ObjectReference: corev1.TypedObjectReference{APIGroup: &kind.group, Kind: kind.kind, Name: name, Namespace: &g.namespace},
		Labels:          map[string]string{labelDependency: kind.of}, Children: children,
	}
}

// matcherNodes returns the nodes of an instancetype or preference, and of the revision that the VM is pinned to. The first node is optional, because the
// revision has its content. unnamed is the kind of a matcher that names no kind.
func (g graph) matcherNodes(matcher v1.Matcher, unnamed string, pinned *v1.InstancetypeStatusRef) (nodes []v1.ObjectGraphNode) {
	kind := dependency{"instancetype.kubevirt.io", cmp.Or(matcher.GetKind(), unnamed), "config"}
	of := g
	if strings.Contains(strings.ToLower(kind.kind), "cluster") {
		of.namespace = ""
	}
	node := of.newNode(kind, matcher.GetName())
	node.Optional = ptr.To(true)
	nodes = append(nodes, node)
	revision := matcher.GetRevisionName()
	if pinned != nil && pinned.ControllerRevisionRef != nil {
		revision = pinned.ControllerRevisionRef.Name
	}
	if revision != "" {
		nodes = append(nodes, g.newNode(dependsRevision, revision))
	}
	return nodes
}

// specNodes returns the nodes of the objects that a VMI's spec names.
func (g graph) specNodes(spec *v1.VirtualMachineInstanceSpec) (nodes []v1.ObjectGraphNode) {
	for _, secret := range pod.CredentialSecrets(spec) {
		nodes = append(nodes, g.newNode(dependsSecret, secret))
	}
	for i := range spec.Volumes {
		nodes = append(nodes, g.volumeNodes(&spec.Volumes[i])...)
	}
	for i := range spec.Networks {
		if multus := spec.Networks[i].Multus; multus != nil && multus.NetworkName != "" {
			of, name := g, multus.NetworkName
			if namespace, local, other := strings.Cut(multus.NetworkName, "/"); other {
				of.namespace, name = namespace, local
			}
			node := of.newNode(dependsNetwork, name)
			node.Optional = ptr.To(true)
			nodes = append(nodes, node)
		}
	}
	return nodes
}

func (g graph) volumeNodes(volume *v1.Volume) (nodes []v1.ObjectGraphNode) {
	secrets := func(refs ...*corev1.LocalObjectReference) {
		for _, ref := range refs {
			if ref != nil {
				nodes = append(nodes, g.newNode(dependsSecret, ref.Name))
			}
		}
	}
	switch {
	case volume.DataVolume != nil:
		nodes = append(nodes, g.newNode(dependsVolume, volume.DataVolume.Name, g.newNode(dependsClaim, volume.DataVolume.Name)))
	case volume.PersistentVolumeClaim != nil:
		nodes = append(nodes, g.newNode(dependsClaim, volume.PersistentVolumeClaim.ClaimName))
	case volume.Ephemeral != nil && volume.Ephemeral.PersistentVolumeClaim != nil:
		nodes = append(nodes, g.newNode(dependsClaim, volume.Ephemeral.PersistentVolumeClaim.ClaimName))
	case volume.ConfigMap != nil:
		nodes = append(nodes, g.newNode(dependsConfig, volume.ConfigMap.Name))
	case volume.Secret != nil:
		nodes = append(nodes, g.newNode(dependsSecret, volume.Secret.SecretName))
	case volume.ServiceAccount != nil:
		nodes = append(nodes, g.newNode(dependsAccount, volume.ServiceAccount.ServiceAccountName))
	case volume.CloudInitNoCloud != nil:
		secrets(volume.CloudInitNoCloud.UserDataSecretRef, volume.CloudInitNoCloud.NetworkDataSecretRef)
	case volume.CloudInitConfigDrive != nil:
		secrets(volume.CloudInitConfigDrive.UserDataSecretRef, volume.CloudInitConfigDrive.NetworkDataSecretRef)
	}
	return nodes
}
