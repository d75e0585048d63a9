package bench

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/identity"
	"github.com/kilnvm/kiln/pkg/render"
	"github.com/kilnvm/kiln/pkg/validate"
	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"
)

func machineOf(b *testing.B, vmi *v1.VirtualMachineInstance) render.Machine {
	b.Helper()
	explicit, verdict := admit.VMI(vmi, admit.Input{Cluster: config.Default()})
	if !verdict.Allowed() {
		b.Fatal(verdict.Errors.ToAggregate())
	}
	identity.Fill(explicit, "bench")
	return render.Machine{
		VMI: explicit, Defaults: config.Default().Frontend,
		Host: backend.Assumed(explicit.Spec.Architecture), Bindings: backend.AssumedBindings(explicit),
	}
}

// rendered runs stages 2 and 3 and writes the domain.
func rendered(b *testing.B, machine render.Machine) render.Result {
	out, errs := render.Domain(machine)
	if len(errs) > 0 {
		b.Fatal(errs.ToAggregate())
	}
	written(b, out)
	return out
}

func written(b *testing.B, out render.Result) {
	if _, err := out.Documents.Domain.Marshal(); err != nil {
		b.Fatal(err)
	}
}

func BenchmarkRender(b *testing.B) {
	for _, size := range sizes {
		b.Run(size, func(b *testing.B) {
			vmi := &v1.VirtualMachineInstance{}
			if err := json.Unmarshal(input(b, "vmi-"+size+".json"), vmi); err != nil {
				b.Fatal(err)
			}
			machine := machineOf(b, vmi)
			once := rendered(b, machine)
			beside(b, func() { rendered(b, machine) }, func() { written(b, once) })
		})
	}
}

// counts of devices by which the cost per device must not grow.
var counts = []int{1, 10, 100, 1000}

// withDisks is a VMI of n disks on a bus that takes that many.
func withDisks(n int) *v1.VirtualMachineInstance {
	vmi := &v1.VirtualMachineInstance{}
	vmi.Name, vmi.Namespace = "disks", "bench"
	quantity := resource.MustParse("1Gi")
	vmi.Spec.Domain.Memory = &v1.Memory{Guest: &quantity}
	for i := range n {
		name := fmt.Sprintf("disk-%d", i)
		vmi.Spec.Domain.Devices.Disks = append(vmi.Spec.Domain.Devices.Disks, v1.Disk{
			Name: name, DiskDevice: v1.DiskDevice{Disk: &v1.DiskTarget{Bus: v1.DiskBusSCSI}},
		})
		vmi.Spec.Volumes = append(vmi.Spec.Volumes, v1.Volume{
			Name: name, VolumeSource: v1.VolumeSource{EmptyDisk: &v1.EmptyDiskSource{Capacity: quantity}},
		})
	}
	return vmi
}

func BenchmarkRenderDevices(b *testing.B) {
	for _, n := range counts {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			machine := machineOf(b, withDisks(n))
			each(b, n, func() { rendered(b, machine) })
		})
	}
}

func BenchmarkJudgeDevices(b *testing.B) {
	for _, n := range counts {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			vmi, limits := machineOf(b, withDisks(n)).VMI, config.Default().Limits
			if errs := validate.Guest(vmi, limits, nil); len(errs) > 0 {
				b.Fatal(errs.ToAggregate())
			}
			each(b, n, func() { validate.Guest(vmi, limits, nil) })
		})
	}
}

// each reports the time for one of n devices.
func each(b *testing.B, n int, work func()) {
	b.ReportAllocs()
	for b.Loop() {
		work()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/device")
}
