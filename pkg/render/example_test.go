package render_test

import (
	"fmt"

	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/render"
	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"
)

// An explicit VMI becomes the libvirt domain that starts it, and the record that its next boot needs.
func ExampleDomain() {
	cluster, memory := config.Default(), resource.MustParse("1Gi")
	vmi := &v1.VirtualMachineInstance{}
	vmi.Name, vmi.Namespace, vmi.UID = "web", "shop", "5f0c1f6e-6d2a-4c7b-9a43-8f3e1d2c7b6a"
	vmi.Spec.Domain.Memory = &v1.Memory{Guest: &memory}
	vmi.Spec.Volumes = []v1.Volume{{Name: "root", VolumeSource: v1.VolumeSource{ContainerDisk: &v1.ContainerDiskSource{Image: "fedora:42"}}}}
	explicit, verdict := admit.VMI(vmi, admit.Input{Cluster: cluster})
	if !verdict.Allowed() {
		panic(verdict.Errors.ToAggregate())
	}

	// A launcher tells what its host can do and where the volumes lie; offline, a host of this architecture is assumed.
	machine := render.Machine{
		VMI: explicit, Defaults: cluster.Frontend,
		Host: backend.Assumed(explicit.Spec.Architecture), Bindings: backend.AssumedBindings(explicit),
	}
	first, errs := render.Domain(machine)
	if len(errs) > 0 {
		panic(errs.ToAggregate())
	}
	disk := first.Documents.Domain.Devices.Disks[0]
	fmt.Println(disk.Alias.Name, "is", disk.Target.Dev, "on", disk.Target.Bus, "at", first.Record.Devices["disk.root"].Drive)

	machine.Frozen = &first.Record // the next boot
	second, _ := render.Domain(machine)
	fmt.Println("the same hardware:", first.Record.Digest == second.Record.Digest)
	// Output:
	// ua-root is sda on sata at 0:0:0:0
	// the same hardware: true
}
