package address_test

import (
	"fmt"
	"testing"

	"github.com/kilnvm/kiln/pkg/address"
)

// BenchmarkPlace reports the time of one device; linear means that it does not grow with their number.
func BenchmarkPlace(b *testing.B) {
	for _, n := range []int{10, 50, 200} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var devices []address.Device
			for i := range n {
				devices = append(devices, device(fmt.Sprint(i), ""))
			}
			b.ReportAllocs()
			for b.Loop() {
				address.PCIe{Free: 4}.Place(devices)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/device")
		})
	}
}
