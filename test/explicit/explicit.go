// Package explicit has explicit VMIs for the tests of packages that bind, render and start them.
package explicit

import (
	"strings"
	"testing"

	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/render"
	"github.com/kilnvm/kiln/test/libvirt"
	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"
)

// Plain returns a VMI of namespace 'default' without disks and interfaces.
func Plain(t *testing.T, name string) *v1.VirtualMachineInstance {
	t.Helper()
	vmi := &v1.VirtualMachineInstance{}
	vmi.Name, vmi.Namespace, vmi.UID = name, "default", "5f0c1f6e-6d2a-4c7b-9a43-8f3e1d2c7b6a"
	vmi.Spec.Architecture = "amd64"
	vmi.Spec.Domain.CPU = &v1.CPU{Cores: 1, Model: "qemu64"}
	memory := resource.MustParse("64Mi")
	vmi.Spec.Domain.Memory = &v1.Memory{Guest: &memory, MaxGuest: &memory}
	explicit := Expand(t, vmi)
	explicit.Spec.Domain.Devices.Interfaces, explicit.Spec.Networks = nil, nil
	return explicit
}

// WithClaim returns a VMI of namespace 'shop' with one disk on the claim 'data', and a network card.
func WithClaim(t *testing.T) *v1.VirtualMachineInstance {
	t.Helper()
	vmi := &v1.VirtualMachineInstance{}
	vmi.Name, vmi.Namespace, vmi.UID = "disks", "shop", "0d9c2f0e-0000-4000-8000-000000000001"
	memory := resource.MustParse("128Mi")
	vmi.Spec.Architecture = "amd64"
	vmi.Spec.Domain.Memory = &v1.Memory{Guest: &memory}
	vmi.Spec.Domain.CPU = &v1.CPU{Model: "qemu64", Cores: 1}
	vmi.Spec.Domain.Devices.Disks = []v1.Disk{{Name: "data", DiskDevice: v1.DiskDevice{Disk: &v1.DiskTarget{Bus: v1.DiskBusVirtio}}}}
	claim := &v1.PersistentVolumeClaimVolumeSource{}
	claim.ClaimName = "data"
	vmi.Spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: claim}}}
	vmi.Spec.Networks = []v1.Network{*v1.DefaultPodNetwork()}
	vmi.Spec.Domain.Devices.Interfaces = []v1.Interface{{Name: "default",
		InterfaceBindingMethod: v1.InterfaceBindingMethod{Masquerade: &v1.InterfaceMasquerade{}}}}
	return Expand(t, vmi)
}

// Expand makes a VMI without references explicit.
func Expand(t *testing.T, vmi *v1.VirtualMachineInstance) *v1.VirtualMachineInstance {
	t.Helper()
	explicit, verdict := admit.VMI(vmi, admit.Input{Cluster: config.Default()})
	if !verdict.Allowed() {
		t.Fatal(verdict.Errors.ToAggregate())
	}
	return explicit
}

// Documents returns the documents of a VMI on an assumed host without KVM.
func Documents(t *testing.T, vmi *v1.VirtualMachineInstance, bindings backend.Bindings) backend.Documents {
	t.Helper()
	host := backend.Assumed("amd64")
	host.VirtTypes = []string{"qemu"}
	rendered, errs := render.Domain(render.Machine{VMI: vmi, Defaults: config.Default().Frontend, Host: host, Bindings: bindings})
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	return rendered.Documents
}

// SideDocuments counts the secrets and Kiln's network filters that a libvirt has.
func SideDocuments(t *testing.T, d *libvirt.Daemon) (secrets, filters int) {
	t.Helper()
	client, err := d.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Disconnect() //nolint:errcheck // its daemon ends with the test
	_, s, err := client.ConnectListAllSecrets(1, 0)
	if err != nil {
		t.Fatal(err)
	}
	list, _, err := client.ConnectListAllNwfilters(1, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, filter := range list {
		if strings.HasPrefix(filter.Name, "kiln-") {
			filters++
		}
	}
	return int(s), filters
}
