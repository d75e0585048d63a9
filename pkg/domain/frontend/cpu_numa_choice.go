package frontend

import (
	"cmp"
	"slices"
)

// Chooses the NUMA nodes of the first host that a guest mirrors.

// share is a NUMA node of the host and the number of the guest's cores on it.
type share struct {
	NUMANode
	cores uint
}

// chooseNUMANodes deals cores of some threads to as few NUMA nodes as have room for all, the roomiest ones, one core at a time to the NUMA node
// with the fewest; nil if there is no room. Cells that the guest is to see devices next to come first, and all of them. The result
// is in the host's order and every NUMA node has a core.
func (g *guest) chooseNUMANodes(cores, threads uint) []share {
	near := g.nodesWithDevices()
	room := func(c NUMANode) uint { return c.CPUs / threads }
	roomy := slices.DeleteFunc(slices.Clone(g.Facts.NUMA), func(c NUMANode) bool { return room(c) == 0 })
	slices.SortStableFunc(roomy, func(a, b NUMANode) int { return cmp.Or(near[b.ID]-near[a.ID], cmp.Compare(room(b), room(a))) })
	n, total := 0, uint(0)
	for n < len(roomy) && (total < cores || near[roomy[n].ID] > 0 && uint(n) < cores) {
		total += room(roomy[n])
		n++
	}
	if total < cores {
		return nil
	}
	chosen := make([]share, 0, n)
	for _, c := range g.Facts.NUMA {
		if slices.ContainsFunc(roomy[:n], func(r NUMANode) bool { return r.ID == c.ID }) {
			chosen = append(chosen, share{NUMANode: c})
		}
	}
	for range cores {
		least := -1
		for i, s := range chosen {
			if s.cores < room(s.NUMANode) && (least < 0 || s.cores < chosen[least].cores) {
				least = i
			}
		}
		chosen[least].cores++
	}
	return chosen
}

// distances of a NUMA node to all, as ACPI counts them: 10 to itself, 11 to 254 to others. Nil unless the host tells all of them.
func distances(chosen []share, of int) []uint {
	if len(chosen) == 1 {
		return nil
	}
	var out []uint
	for _, from := range chosen {
		for _, to := range chosen {
			if d := from.Distances[to.ID]; from.ID != to.ID && (d < 11 || d > 254) {
				return nil
			}
		}
	}
	for i, to := range chosen {
		if i == of {
			out = append(out, 10)
			continue
		}
		out = append(out, chosen[of].Distances[to.ID])
	}
	return out
}
