package pod

import (
	"fmt"
	"strings"
	"testing"
)

// TestJudgeAllocatesLittle: admission judges each VM. The judgement on a guest that has nothing to refuse makes the same few allocations for one disk and for
// 40.
func TestJudgeAllocatesLittle(t *testing.T) {
	const most = 6
	for _, count := range []int{1, 40} {
		var disks, volumes []string
		for i := range count {
			disks = append(disks, fmt.Sprintf("{name: d%d, disk: {bus: virtio}}", i))
			volumes = append(volumes, fmt.Sprintf("{name: d%d, persistentVolumeClaim: {claimName: c%d}}", i, i))
		}
		vmi := input(t, fmt.Sprintf("domain: {devices: {disks: [%s], interfaces: [{name: default, masquerade: {}}]}}, networks: [{name: default, pod: {}}], "+
			"volumes: [%s]", strings.Join(disks, ", "), strings.Join(volumes, ", "))).VMI
		if refused, without := Judge(vmi, "states"); len(refused)+len(without) > 0 {
			t.Fatalf("%v, %v", refused, without)
		}
		if got := testing.AllocsPerRun(20, func() { Judge(vmi, "states") }); got > most {
			t.Errorf("%d disks: %.0f allocations, want at most %d", count, got, most)
		}
	}
}
