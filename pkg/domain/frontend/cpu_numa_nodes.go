package frontend

import (
	"fmt"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/internal/vm"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"libvirt.org/go/libvirtxml"
)

// Owns the annotation kilnvm.io/numa-cells: the number of NUMA nodes that the guest sees, independent of the host. KubeVirt has no such
// field. libvirt: "NUMA topology" below "CPU model and topology".
//
// Each NUMA node has the same number of sockets, because no kernel expects a socket in two nodes, and an equal share of the memory. They
// follow only from the spec, so the record does not hold them.

// mebibyte is 1 MiB in KiB: libvirt rounds the memory of a NUMA node up to it, which would make the guest's memory larger than asked for.
const mebibyte = 1024

var numaNodesPath = field.NewPath("metadata", "annotations").Key(v1alpha1.AnnotationNUMACells)

// ownNUMANodes returns the NUMA nodes that the annotation asks for; nil without the annotation or after an error.
func (g *guest) ownNUMANodes() *libvirtxml.DomainNuma {
	text := g.VMI.Annotations[v1alpha1.AnnotationNUMACells]
	n, ok := vm.NUMANodes(g.VMI)
	sockets, maxSockets, cores, threads := g.cpuTopology()
	switch {
	case text == "":
		return nil
	case !ok:
		g.addError(field.Invalid(numaNodesPath, text, fmt.Sprintf("must be a number from 1 to %d", vm.MaxNUMANodes)))
		return nil
	case g.arch.ccw:
		g.addError(field.Forbidden(numaNodesPath, "architecture 's390x' has no NUMA nodes"))
		return nil
	case sockets%n != 0:
		g.addError(field.Invalid(numaNodesPath, text, fmt.Sprintf("must divide the number of sockets, which is %d", sockets)))
		return nil
	}
	nodes, each := make([]numaNode, n), sockets/n*cores*threads
	for i := range nodes {
		nodes[i].cpus = cpuRange(uint(i)*each, uint(i+1)*each)
	}
	spreadHotplugSockets(nodes, sockets, maxSockets, cores*threads)
	if !g.splitMemory(nodes) {
		return nil
	}
	return numaElement(nodes)
}

// spreadHotplugSockets distributes the sockets that can be hot-plugged over the NUMA nodes in turn. each is the number of CPUs of a socket.
func spreadHotplugSockets(nodes []numaNode, sockets, maxSockets, each uint) {
	for s := sockets; s < maxSockets; s++ {
		to := &nodes[int(s-sockets)%len(nodes)]
		to.cpus = to.cpus.Union(cpuRange(s*each, (s+1)*each))
	}
}

// splitMemory gives each NUMA node an equal number of pages. Remaining pages go to the first nodes, a remainder below a MiB to the last.
func (g *guest) splitMemory(nodes []numaNode) bool {
	unit, path := uint(mebibyte), g.path.Child("memory", "guest")
	if m := g.spec.Domain.Memory; m != nil && m.Hugepages != nil {
		page, err := g.hugePage()
		if err != nil {
			g.addError(err)
			return false
		}
		unit = max(unit, page) // smaller pages make whole MiB
	}
	total, n := g.renderMemory().Value, uint(len(nodes))
	if total/unit < n || unit > mebibyte && total%unit != 0 {
		g.addError(field.Invalid(path, fmt.Sprintf("%dKi", total),
			fmt.Sprintf("must give each of %d NUMA nodes at least one page of %d KiB, in whole pages", n, unit)))
		return false
	}
	for i := range nodes {
		nodes[i].memory = total / unit / n * unit
		if uint(i) < total/unit%n {
			nodes[i].memory += unit
		}
	}
	nodes[n-1].memory += total % unit
	return true
}
