package record

import "slices"

// WithoutConsequences returns changes without their consequences, which say nothing beside them: PCI root ports that come, go or change with a device, and
// moves of devices whose place no guest keeps. All are returned if nothing else changes, or if the verdict would be another one without them.
func WithoutConsequences(changes []Change) []Change {
	causes := slices.DeleteFunc(slices.Clone(changes), Change.isConsequence)
	if len(causes) == 0 || Judge(causes) != Judge(changes) {
		return changes
	}
	return causes
}

// isConsequence reports whether a change is of a PCI controller, or of a device of which a guest has one and knows it by its kind.
func (c Change) isConsequence() bool {
	if _, port := Port(c.Device); port {
		return true
	}
	kind, _ := SplitKey(c.Device)
	return c.Verdict == Breaks && slices.Contains([]string{"rng", "memballoon"}, kind)
}
