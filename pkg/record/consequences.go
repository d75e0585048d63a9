package record

import "slices"

// WithoutConsequences returns changes without the changes that only follow from others: PCI root ports that are added, removed or changed with a device, and
// moves of devices whose address no guest remembers. It returns all changes if nothing else changes, or if the verdict would differ without them.
func WithoutConsequences(changes []Change) []Change {
	causes := slices.DeleteFunc(slices.Clone(changes), Change.isConsequence)
	if len(causes) == 0 || Judge(causes) != Judge(changes) {
		return changes
	}
	return causes
}

// isConsequence reports whether a PCI controller changes, or a device moves that a guest knows by its kind, because it has only one.
func (c Change) isConsequence() bool {
	if _, port := Port(c.Device); port {
		return true
	}
	kind, _ := SplitKey(c.Device)
	return c.Verdict == Breaks && slices.Contains([]string{"rng", "memballoon"}, kind)
}
