package admit_test

import (
	"fmt"

	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/instancetype"
	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

const exampleVM = `
metadata: {name: web, namespace: shop}
spec:
  runStrategy: Always
  instancetype: {name: small}
  template:
    spec:
      domain: {devices: {}}
      volumes: [{name: root, containerDisk: {image: "registry.example/disks/fedora:42"}}]
`

// A VM becomes the VMI that it would start, with every default, and a verdict on both.
func ExampleVM() {
	var vm v1.VirtualMachine
	if err := yaml.UnmarshalStrict([]byte(exampleVM), &vm); err != nil {
		panic(err)
	}
	small := &instancetype.Instancetype{Source: instancetype.Source{Kind: "VirtualMachineInstancetype", Name: "small"}}
	small.Spec.CPU.Guest, small.Spec.Memory.Guest = 2, resource.MustParse("4Gi")
	in := admit.Input{Set: instancetype.Set{Instancetype: small}, Cluster: config.Default()}

	vmi, verdict := admit.VM(&vm, nil, in)
	domain := vmi.Spec.Domain
	fmt.Println("allowed:", verdict.Allowed())
	fmt.Println("memory:", domain.Memory.Guest, "sockets:", domain.CPU.Sockets, "machine:", domain.Machine.Type)
	fmt.Println("disk:", domain.Devices.Disks[0].Name, "on", domain.Devices.Disks[0].Disk.Bus)

	vm.Spec.Template.Spec.Domain.CPU = &v1.CPU{Cores: 4}
	_, verdict = admit.VM(&vm, nil, in)
	for _, err := range verdict.Errors {
		fmt.Println(err.Field)
	}
	// Output:
	// allowed: true
	// memory: 4Gi sockets: 2 machine: q35
	// disk: root on sata
	// spec.template.spec.domain.cpu.cores
}

// Each field of the VMI can be explained by who gave it its value.
func ExampleExplainVM() {
	var vm v1.VirtualMachine
	if err := yaml.UnmarshalStrict([]byte(exampleVM), &vm); err != nil {
		panic(err)
	}
	small := &instancetype.Instancetype{Source: instancetype.Source{Name: "small"}}
	small.Spec.CPU.Guest, small.Spec.Memory.Guest = 2, resource.MustParse("4Gi")
	for _, fact := range admit.ExplainVM(&vm, admit.Input{Set: instancetype.Set{Instancetype: small}, Cluster: config.Default()}).Fields {
		switch fact.Path {
		case "spec.domain.memory.guest", "spec.domain.machine.type", "spec.volumes[0].name":
			fmt.Println(fact.Path+":", fact.Origin)
		}
	}
	// Output:
	// spec.domain.memory.guest: instancetype small
	// spec.domain.machine.type: default (machine)
	// spec.volumes[0].name: user
}
