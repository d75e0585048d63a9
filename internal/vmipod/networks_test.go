package vmipod

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/vmipod/podinput"
	"github.com/kilnvm/kiln/pkg/pod"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// definition is a NetworkAttachmentDefinition that names a resource.
func definition(namespace, name, resource string) client.Object {
	made := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name,
		Annotations: map[string]string{pod.AnnotationResource: resource}}}
	made.SetGroupVersionKind(podinput.NetworkAttachmentDefinition)
	return made
}

// vmiOnNetworks is a VMI with a bridge on each network.
func vmiOnNetworks(names ...string) *v1.VirtualMachineInstance {
	vmi := explicitVMI()
	for _, name := range names {
		network := v1.Network{Name: name, NetworkSource: v1.NetworkSource{Multus: &v1.MultusNetwork{NetworkName: name}}}
		nic := v1.Interface{Name: name, InterfaceBindingMethod: v1.InterfaceBindingMethod{Bridge: &v1.InterfaceBridge{}}}
		vmi.Spec.Networks = append(vmi.Spec.Networks, network)
		vmi.Spec.Domain.Devices.Interfaces = append(vmi.Spec.Domain.Devices.Interfaces, nic)
	}
	return vmi
}

// TestNetworkResources: the pod requests the resource of the definition that the VMI names, in the namespace of the VMI or another one.
func TestNetworkResources(t *testing.T) {
	vmi := vmiOnNetworks("blue", "infra/lan", "plain", "later", "", "/", "a/b/c", "..", "x/%2e")
	vmi.Spec.Networks = append(vmi.Spec.Networks, v1.Network{Name: "instead",
		NetworkSource: v1.NetworkSource{Multus: &v1.MultusNetwork{NetworkName: "lan", Default: true}}})
	on := newCluster(t, vmi, definition("team", "blue", " x.y/vf "), definition("infra", "lan", "x.y/lan"), definition("team", "plain", ""),
		definition("team", "lan", "x.y/wrong"))
	found, err := on.controller.podInputs().Read(t.Context(), vmi)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"blue": "x.y/vf", "infra/lan": "x.y/lan", "plain": ""}, found.NetworkResources); diff != "" {
		t.Errorf("resources (-want +found):\n%s", diff)
	}
}

// TestMissingNetwork: the pod is made when the definition of its network exists, and requests its resource.
func TestMissingNetwork(t *testing.T) {
	on := newCluster(t, vmiOnNetworks("blue"))
	on.controller.Settings.Taps = true
	on.reconcileAll()
	on.expectRefusal("a network that does not exist", v1alpha1.ReasonNotPlaceable, `spec.networks[1].multus.networkName: Not found: "blue"`)
	if on.pod() != nil {
		t.Fatal("the pod is made")
	}
	on.must(on.WithWatch.Create(t.Context(), definition("team", "blue", "x.y/br1")))
	on.now = on.now.Add(time.Hour)
	on.reconcileAll()
	made := on.pod()
	if made == nil {
		t.Fatal("no pod is made")
	}
	if one := made.Spec.Containers[0].Resources.Requests["x.y/br1"]; one.Value() != 1 {
		t.Errorf("the pod requests %v", made.Spec.Containers[0].Resources.Requests)
	}
}
