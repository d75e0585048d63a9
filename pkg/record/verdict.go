package record

// Verdict is what a change of the hardware means for a guest.
type Verdict string

const (
	// Compatible means that the guest sees no difference.
	Compatible Verdict = "compatible"
	// NeedsRestart means that the guest finds more devices, fewer devices or other settings at its next boot, and all other devices where they were.
	NeedsRestart Verdict = "needs restart"
	// Breaks means that a device or identifier on which the guest relies changes or moves: network names, boot entries and licences may be lost.
	Breaks Verdict = "breaks the guest's hardware"
)

// Change is one difference that the guest sees.
type Change struct {
	// Device is the key of the device in records, such as disk.root; empty if Part is set.
	Device string `json:"device,omitempty"`
	// Part is the part that changes; empty if Device is set.
	Part Part `json:"part,omitempty"`
	// Text is the change in words for users.
	Text    string  `json:"text"`
	Verdict Verdict `json:"verdict"`
}

// Judge returns the worst verdict of changes; Compatible without changes.
func Judge(changes []Change) Verdict {
	worst := Compatible
	for _, c := range changes {
		switch c.Verdict {
		case Breaks:
			return Breaks
		case NeedsRestart:
			worst = NeedsRestart
		}
	}
	return worst
}
