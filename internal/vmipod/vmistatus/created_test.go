package vmistatus

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/pkg/pod"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
)

var key = types.NamespacedName{Namespace: "team", Name: "a"}

// explicitVMI returns a VMI with an interface on the pod network.
func explicitVMI() *v1.VirtualMachineInstance {
	vmi := &v1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: "0000-vmi"}}
	vmi.Spec.Domain.Devices.Interfaces = []v1.Interface{{Name: "default", Model: "virtio",
		InterfaceBindingMethod: v1.InterfaceBindingMethod{Masquerade: &v1.InterfaceMasquerade{}}}}
	vmi.Spec.Networks = []v1.Network{{Name: "default", NetworkSource: v1.NetworkSource{Pod: &v1.PodNetwork{}}}}
	return vmi
}

// TestInterfaces: each card has an entry, the one on the pod network the first.
func TestInterfaces(t *testing.T) {
	vmi := explicitVMI()
	nics := &vmi.Spec.Domain.Devices.Interfaces
	lan := v1.Interface{Name: "lan", MacAddress: tapMAC, InterfaceBindingMethod: v1.InterfaceBindingMethod{Bridge: &v1.InterfaceBridge{}}}
	gone := v1.Interface{Name: "gone", State: v1.InterfaceStateAbsent}
	*nics = append([]v1.Interface{lan, gone}, *nics...)
	multus := func(name string) v1.Network {
		return v1.Network{Name: name, NetworkSource: v1.NetworkSource{Multus: &v1.MultusNetwork{NetworkName: "nad"}}}
	}
	vmi.Spec.Networks = append(vmi.Spec.Networks, multus("lan"), multus("gone"))
	cards := interfaceStatuses(pod.Input{VMI: vmi, Settings: pod.Settings{Network: pod.Passt}})
	if len(cards) != 2 || cards[0].Name != "default" || cards[0].PodInterfaceName != podInterface || cards[0].MAC == "" {
		t.Fatalf("the cards are %+v", cards)
	}
	want := v1.VirtualMachineInstanceNetworkInterface{Name: "lan", MAC: tapMAC, PodInterfaceName: pod.PodInterface("lan"), InfoSource: infoDomain}
	if diff := cmp.Diff(want, cards[1]); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	drawn := v1.Network{Name: "drawn", NetworkSource: v1.NetworkSource{ResourceClaim: &v1.ClaimRequest{ClaimName: "a", RequestName: "b"}}}
	ofClaim := vmi.DeepCopy()
	ofClaim.Spec.Networks = append(ofClaim.Spec.Networks, drawn)
	ofClaim.Spec.Domain.Devices.Interfaces = append(ofClaim.Spec.Domain.Devices.Interfaces, v1.Interface{Name: "drawn"})
	listed := interfaceStatuses(pod.Input{VMI: ofClaim, Settings: pod.Settings{Network: pod.Passt}})
	if last := listed[len(listed)-1]; last.Name != "drawn" || last.PodInterfaceName != "" || listed[0].Name == "drawn" {
		t.Errorf("a device of a claim is listed as %+v", listed)
	}
	if slirp := interfaceStatuses(pod.Input{VMI: vmi, Settings: pod.Settings{Network: pod.Slirp}}); slirp[0].PodInterfaceName != "" {
		t.Errorf("by slirp the card is %+v", slirp[0])
	}
}
