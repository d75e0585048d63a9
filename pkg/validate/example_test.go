package validate_test

import (
	"fmt"

	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/mutate"
	"github.com/kilnvm/kiln/pkg/validate"
	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"
)

// Rules judge an explicit VMI: all errors at once, each at the field to change and with the name of its rule.
func ExampleGuest() {
	cluster, memory := config.Default(), resource.MustParse("1Gi")
	vmi := &v1.VirtualMachineInstance{}
	vmi.Spec.Domain.Memory = &v1.Memory{Guest: &memory}
	vmi.Spec.Domain.CPU = &v1.CPU{Sockets: 4, MaxSockets: 2}
	vmi.Spec.Domain.Devices.Disks = []v1.Disk{{Name: "root"}}
	mutate.Apply(vmi, cluster.Defaults)

	for _, err := range validate.Guest(vmi, cluster.Limits, nil) {
		fmt.Println(err.Origin, "at", err.Field)
	}
	// Output:
	// cpu/sockets at spec.domain.cpu.sockets
	// disks/disk-volume at spec.domain.devices.disks[0].name
}
