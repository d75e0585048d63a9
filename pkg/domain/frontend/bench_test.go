package frontend_test

import (
	"encoding/xml"
	"fmt"
	"testing"
	"time"

	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/domain/frontend"
	"github.com/kilnvm/kiln/test/frontends"
	v1 "kubevirt.io/api/core/v1"
)

// BenchmarkRender renders guests with more and more disks, fresh and from a record. x-limit is the time in units of
// marshalling the result; ns/device says whether the whole is linear.
func BenchmarkRender(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		vmi := frontends.Explicit(b, "amd64", "bench")
		for i := range n {
			name := fmt.Sprintf("d%d", i)
			vmi.Spec.Domain.Devices.Disks = append(vmi.Spec.Domain.Devices.Disks, disk(name, v1.DiskBusSCSI))
			vmi.Spec.Volumes = append(vmi.Spec.Volumes, v1.Volume{Name: name})
		}
		in := frontends.Input(vmi)
		dom := frontends.Rendered(b, in)
		record := abi.Freeze(dom, "v1")
		frozen := in
		frozen.Frozen = &record
		for name, in := range map[string]frontend.Input{"fresh": in, "frozen": frozen} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				start := time.Now()
				for range 10 {
					if _, err := xml.Marshal(dom); err != nil {
						b.Fatal(err)
					}
				}
				limit := time.Since(start) / 10
				b.ReportAllocs()
				for b.Loop() {
					frontend.Render(in)
				}
				each := float64(b.Elapsed().Nanoseconds()) / float64(b.N)
				b.ReportMetric(each/float64(n), "ns/device")
				b.ReportMetric(each/float64(limit.Nanoseconds()), "x-limit")
			})
		}
	}
}
