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

// chooseNUMANodes distributes the guest's cores, each with its threads, over as few NUMA nodes as can hold them: those with the most CPUs.
// Nodes with the guest's host devices come first, and all of them are chosen. Each core goes to the chosen node with the fewest. The
// result is in the host's order, and every node in it has a core. It is nil if the nodes cannot hold all cores.
func (g *guest) chooseNUMANodes(cores, threads uint) []share {
	withDevices := g.nodesWithDevices()
	capacity := func(c NUMANode) uint { return c.CPUs / threads }
	candidates := slices.DeleteFunc(slices.Clone(g.Facts.NUMA), func(c NUMANode) bool { return capacity(c) == 0 })
	slices.SortStableFunc(candidates, func(a, b NUMANode) int {
		return cmp.Or(withDevices[b.ID]-withDevices[a.ID], cmp.Compare(capacity(b), capacity(a)))
	})
	n, total := 0, uint(0)
	for n < len(candidates) && (total < cores || withDevices[candidates[n].ID] > 0 && uint(n) < cores) {
		total += capacity(candidates[n])
		n++
	}
	if total < cores {
		return nil
	}
	chosen := make([]share, 0, n)
	for _, c := range g.Facts.NUMA {
		if slices.ContainsFunc(candidates[:n], func(r NUMANode) bool { return r.ID == c.ID }) {
			chosen = append(chosen, share{NUMANode: c})
		}
	}
	for range cores {
		least := -1
		for i, s := range chosen {
			if s.cores < capacity(s.NUMANode) && (least < 0 || s.cores < chosen[least].cores) {
				least = i
			}
		}
		chosen[least].cores++
	}
	return chosen
}

// distancesOf returns the distances of a NUMA node to all, in the units of ACPI's SLIT: 10 to itself, 11 to 254 to others. It is nil unless the host
// reports all of them, because libvirt fills in its own for those that are missing.
func distancesOf(chosen []share, of int) []uint {
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
