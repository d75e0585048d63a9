// Package startcheck finds the step between a VM and its running guest that is not done, and says why, what helps and who can do it. It takes the objects of a
// VM as values, of clusters in which KubeVirt runs the guests or Kiln does, and reads and writes no cluster. Package objectread reads the objects.
package startcheck

// State is the state of a step.
type State string

// States of a step.
const (
	Done    State = "Done"
	Waiting State = "Waiting"
	Failed  State = "Failed"
	// NotRequested is the state if the VM asks for no guest, for example with run strategy Halted.
	NotRequested State = "NotRequested"
	// NotReached is the state of a step after one that is not done.
	NotReached State = "NotReached"
	// Unknown is the state if the caller may not read the objects of the step. The detail names the right.
	Unknown State = "Unknown"
)

// Step is one step of the chain from a VM to its guest.
type Step struct {
	Step string `json:"step"`
	// Object is the object that decides, such as "Pod 'virt-launcher-web-x'".
	Object string `json:"object,omitempty"`
	State  State  `json:"state"`
	Detail string `json:"detail,omitempty"`
}

// Answer says where the chain from a VM to its guest stands.
type Answer struct {
	// Object is the VM, or the VMI if no VM has made it, such as "VirtualMachine shop/web".
	Object string `json:"object"`
	// Runs reports that the guest runs. It may be paused.
	Runs bool `json:"runs"`
	// AsRequested reports that nothing is wrong: the guest runs, or no guest is requested.
	AsRequested bool   `json:"asRequested"`
	Steps       []Step `json:"steps"`
	// Cause is one sentence: why the guest does not run, or that it runs.
	Cause string `json:"cause"`
	// Remedy is one sentence: what to do. It is empty if there is nothing to do.
	Remedy string `json:"remedy,omitempty"`
	// By says who can do it.
	By By `json:"by,omitempty"`
	// Notes are further facts about the VM that do not keep the guest from running.
	Notes []string `json:"notes,omitempty"`
}

// finding is what a step finds.
type finding struct {
	state State
	// object decides the step.
	object object
	// reason is the word of the object for its state, or a word of this package. The table of causes searches for it.
	reason string
	// message is what the object says, or what the table of causes inserts. A tenant may have written it.
	message string
	// detail is shown beside the state. If it is empty, message is shown.
	detail string
	// notes are facts that do not keep the guest from running.
	notes []string
}

// object names an object of the namespace of the VM.
type object struct{ kind, name string }

// String returns kind and name; nothing for no object.
func (o object) String() string {
	if o.kind == "" {
		return ""
	}
	return o.kind + " " + quoteName(o.name)
}

// step is a step with the function that finds its state.
type step struct {
	name string
	find func(Objects) finding
	// ofVM reports that only VMs have the step.
	ofVM bool
}

// Names of the steps, in their order.
const (
	stepAdmitted   = "admitted"
	stepPinned     = "pinned"
	stepRequested  = "guest requested"
	stepVolumes    = "volumes"
	stepNetworks   = "networks"
	stepInstance   = "instance"
	stepPod        = "pod"
	stepScheduled  = "scheduled"
	stepContainers = "containers"
	stepDomain     = "domain"
	stepGuest      = "guest"
)

// chain has the steps in the order in which they happen. Claims and networks are looked at before the instance, because they can be mended before it exists.
var chain = []step{
	{stepAdmitted, findAdmission, true},
	{stepPinned, findPins, true},
	{stepRequested, findRequest, true},
	{stepVolumes, findVolumes, false},
	{stepNetworks, findNetworks, false},
	{stepInstance, findInstance, false},
	{stepPod, launcherPod, false},
	{stepScheduled, findSchedule, false},
	{stepContainers, findContainers, false},
	{stepDomain, findDomain, false},
	{stepGuest, findGuest, false},
}

// CheckStart returns where the chain from a VM to its guest stands. The cause is the first step that failed or waits. If none did, the cause is the first step
// whose objects the caller may not read.
func CheckStart(o Objects) Answer {
	a := Answer{Object: o.titleOfVM(), Runs: o.isRunning()}
	var cause, unknown *verdict
	wanted := o.VM.Object == nil || !noGuestWanted(findRequest(o))
	for _, s := range chain {
		if s.ofVM && !o.hasVM() {
			continue
		}
		if cause != nil {
			a.Steps = append(a.Steps, Step{Step: s.name, State: NotReached})
			continue
		}
		f := s.find(o)
		a.Notes = append(a.Notes, f.notes...)
		if a.Runs && s.name != stepGuest && s.name != stepRequested && (f.state == Failed || f.state == Waiting) {
			// The guest was started before this happened. The next start would end here.
			a.Notes = append(a.Notes, "the next start would not get further than step '"+s.name+"': "+f.shownDetail())
			f = finding{state: Done, object: f.object, detail: "done when the guest was started"}
		}
		a.Steps = append(a.Steps, Step{Step: s.name, Object: oneLine(f.object.String()), State: f.state, Detail: f.shownDetail()})
		v := &verdict{s.name, f}
		switch {
		case f.state == Unknown && unknown == nil:
			unknown = v
		case f.state == NotRequested:
			cause = v
		case f.state == Failed || f.state == Waiting:
			// A VM that asks for no guest is not kept from one by a missing instancetype.
			if wanted || s.name == stepRequested {
				cause = v
			}
		}
	}
	a.explainVerdict(o, cause, unknown)
	return a
}

// noGuestWanted reports whether step 'guest requested' found that nobody asks for a guest, or that the guest is to be stopped.
func noGuestWanted(f finding) bool {
	return f.state == NotRequested || f.state == Failed || f.state == Waiting
}

// verdict is a finding with its step.
type verdict struct {
	step string
	finding
}

// explainVerdict sets the cause, the remedy and who can do it.
func (a *Answer) explainVerdict(o Objects, cause, unknown *verdict) {
	switch {
	case cause != nil:
		found := causeOf(*cause)
		a.Cause, a.Remedy, a.By = found.writeSentences(o, *cause)
		a.AsRequested = found.asRequested
	case a.Runs:
		a.AsRequested, a.Cause = true, "The guest runs."
	case unknown != nil:
		a.Cause, a.Remedy, a.By = causeNotReadable.writeSentences(o, *unknown)
	}
}

// shownDetail returns what is shown beside the state.
func (f finding) shownDetail() string {
	if f.detail != "" {
		return oneLine(f.detail)
	}
	return oneLine(f.message)
}
