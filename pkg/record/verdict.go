package record

// Verdict says what a change of its hardware means for a guest.
type Verdict string

const (
	// Compatible means that the guest sees no difference.
	Compatible Verdict = "compatible"
	// NeedsRestart means that at its next boot the guest finds more, less or other settings; all else is where it was.
	NeedsRestart Verdict = "needs restart"
	// Breaks means that something that the guest knows is another or elsewhere. Network names, boot entries and licences may go.
	Breaks Verdict = "breaks the guest's hardware"
)

// Change is one difference that the guest sees.
type Change struct {
	// Device is the key of records, e.g. disk.root; empty for the platform.
	Device string `json:"device,omitempty"`
	// Part is what changes besides devices; empty for devices.
	Part Part `json:"part,omitempty"`
	// Text is the change in plain words.
	Text    string  `json:"text"`
	Verdict Verdict `json:"verdict"`
}

// Judge is the verdict on changes together: the worst of them.
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
