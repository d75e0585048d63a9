package pin

// Event is what a request does to the reference that an entry pins.
type Event string

const (
	// Created means that the VM is new, or that its matcher refers to another object than before.
	Created Event = "created"
	// Updated means that the VM exists and its matcher refers to the same object.
	Updated Event = "updated"
)

// Action is what admission does about one entry.
type Action string

const (
	// First pins the current object: nothing is pinned yet, and the request names no revision.
	First Action = "first"
	// Renew pins the current object, because the request asks for a repin.
	Renew Action = "renew"
	// Honour uses the revisions that the request names, such as the revisions of a restored VM. Those that do not exist in the namespace, or do not match, are
	// dropped with a warning.
	Honour Action = "honour"
	// Keep uses the revisions of the stored VM. A missing revision is an error: no other revision may silently take its place.
	Keep Action = "keep"
	// Refuse refuses revisions that differ from the revisions of the stored VM, unless Keep or Renew would lead to them: then the API server calls the webhook
	// again for the same request, with the result of the first call.
	Refuse Action = "refuse"
)

// Decide returns the action for one entry from its value in the request (now) and in the stored VM (was). All keys of the annotation are decided here.
func Decide(now, was Entry, event Event) Action {
	switch {
	case now.RepinRequested():
		return Renew
	case event == Created && (!now.Pinned() || now.Equal(was)): // an equal entry is the pin of the matcher that the VM had before
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
	return Refuse
}
