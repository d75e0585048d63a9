package pin

// Event is what happens to that which an entry pins.
type Event string

const (
	// Created means that the VM is new, or its matcher means another object than before.
	Created Event = "created"
	// Updated means that the VM was there, with a matcher that means the same.
	Updated Event = "updated"
)

// Action is what admission does about one entry.
type Action string

const (
	// First pins for the first time: nothing was pinned, and nobody asks for a revision.
	First Action = "first"
	// Renew pins what is there now, which the owner asks for.
	Renew Action = "renew"
	// Honour uses the given revisions if they exist here and fit, as those of a restored VM do. Otherwise they are dropped with a warning.
	Honour Action = "honour"
	// Keep uses the recorded revisions. None may silently take their place: that one is missing is an error.
	Keep Action = "keep"
	// Exchange refuses given revisions that are not the recorded ones, unless they are what Keep or Renew leads to: then this is the second
	// call of admission for one request, with the answer of the first.
	Exchange Action = "exchange"
)

// Decide decides about one entry from its new and its old value. It is the only place that does, for instancetype, preference, presets
// and configuration alike.
func Decide(now, was Entry, event Event) Action {
	switch {
	case now.Asks():
		return Renew
	case event == Created && (!now.Pinned() || now.Equal(was)): // an equal entry pins what the matcher meant before
		return First
	case event == Created:
		return Honour
	case !was.Pinned() && !now.Pinned():
		return First
	case !was.Pinned():
		return Honour
	case !now.Given || now.Equal(was):
		return Keep
	}
	return Exchange
}
