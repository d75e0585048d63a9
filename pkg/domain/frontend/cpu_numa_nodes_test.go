package frontend_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/domain/frontend"
	"github.com/kilnvm/kiln/test/frontends"
)

func TestNUMANodesOfTheOwnersChoice(t *testing.T) {
	const mirror = "dedicatedCpuPlacement: true, numa: {guestMappingPassthrough: {}}"
	for _, test := range []struct {
		why, arch, nodes, cpu, memory string
		want                          string // CPUs and KiB of each node, or the field of the error
	}{
		{"equal shares", "amd64", "2", "sockets: 2, cores: 4", "guest: 2Gi", "0-3:1048576 4-7:1048576"},
		{"several sockets each", "amd64", "2", "sockets: 4, cores: 1, threads: 2", "guest: 2Gi", "0-3:1048576 4-7:1048576"},
		{"one node is a node", "arm64", "1", "cores: 2", "guest: 1Gi", "0-1:1048576"},
		{"sockets to be added are dealt out in turn", "amd64", "2", "sockets: 2, maxSockets: 5, cores: 2", "guest: 2Gi", "0-1,4-5,8-9:1048576 2-3,6-7:1048576"},
		{"what does not divide goes to the first, less than a MiB to the last", "amd64", "2", "sockets: 2, cores: 1", "guest: 1049601Ki", "0:525312 1:524289"},
		{"in huge pages", "amd64", "2", "sockets: 2, cores: 1", "guest: 3Gi, hugepages: {pageSize: 1Gi}", "0:2097152 1:1048576"},
		{"more nodes than pages", "amd64", "4", "sockets: 4", "guest: 3Gi, hugepages: {pageSize: 1Gi}", "spec.domain.memory.guest"},
		{"no whole pages", "amd64", "2", "sockets: 2", "guest: 1025Mi, hugepages: {pageSize: 2Mi}", "spec.domain.memory.guest"},
		{"a socket in two cells", "amd64", "2", "sockets: 3", "guest: 2Gi", "metadata.annotations[kilnvm.io/numa-cells]"},
		{"no number", "amd64", "two", "sockets: 2", "guest: 2Gi", "metadata.annotations[kilnvm.io/numa-cells]"},
		{"more than libvirt's hosts have", "amd64", "65", "sockets: 65", "guest: 2Gi", "metadata.annotations[kilnvm.io/numa-cells]"},
		{"the host's cells besides", "amd64", "2", "sockets: 2, " + mirror, "guest: 2Gi, hugepages: {pageSize: 2Mi}", "metadata.annotations[kilnvm.io/numa-cells]"},
		{"a mainframe", "s390x", "2", "sockets: 2", "guest: 2Gi", "metadata.annotations[kilnvm.io/numa-cells]"},
	} {
		in := frontends.With(t, test.arch, "nodes", "spec: {domain: {cpu: {"+test.cpu+"}, memory: {"+test.memory+"}}}")
		in.VMI.Annotations = map[string]string{v1alpha1.AnnotationNUMACells: test.nodes}
		dom, errs := frontend.Render(in)
		got := ""
		if len(errs) > 0 {
			got = errs[0].Field
		} else {
			for _, c := range dom.CPU.Numa.Cell {
				got += fmt.Sprintf("%s:%d ", c.CPUs, c.Memory)
			}
		}
		if got = strings.TrimSpace(got); got != test.want {
			t.Errorf("%s: got %s, want %s; errors %v", test.why, got, test.want, errs)
		}
	}
}
