// Package rehearsal says what a change of a cluster's settings would do to each VM before the change is made: which guests notice it, and which VMs would be
// refused. It reads a cluster or a dump, and writes to neither.
package rehearsal

import (
	"slices"

	"github.com/kilnvm/kiln/pkg/catalog"
	"github.com/kilnvm/kiln/pkg/record"
	"github.com/kilnvm/kiln/pkg/validate"
)

// A rehearsal compares two guests of each VM. 'Before' is the guest that the VM boots next now: with its pins and its recorded hardware. 'After' is the guest
// of the same VM, pinned again with the changes in force. So it is what 'kubectl kiln repin' would say after the change.

// Verdict is what happens to a VM.
type Verdict string

// The verdicts, from the best to the worst. AlreadyRefused and Unjudged are no verdicts on the changes.
const (
	// Same means that the guest sees no difference.
	Same Verdict = "same"
	// Live means that the guest gets a compatible change, perhaps while it runs.
	Live Verdict = "live"
	// Restart means that the guest finds other devices or settings at its next boot, or that KubeVirt asks for a restart of the VM.
	Restart Verdict = "restart"
	// Breaks means that a device or identifier on which the guest relies changes or moves.
	Breaks Verdict = "breaks"
	// Refused means that a rule or a policy refuses the VM, its new pins or its start, and did not before.
	Refused Verdict = "refused"
	// AlreadyRefused means that the VM is refused without the changes, so it has no guest to compare.
	AlreadyRefused Verdict = "already refused"
	// Unjudged means that the VM cannot be read, or refers to an object that is missing.
	Unjudged Verdict = "unjudged"
)

// Verdicts are all verdicts, from the best to the worst.
var Verdicts = []Verdict{Same, Live, Restart, Breaks, Refused, AlreadyRefused, Unjudged}

// Rank returns the place of a verdict in Verdicts.
func (v Verdict) Rank() int { return slices.Index(Verdicts, v) }

// Rehearsal is the result for all VMs. Its lists are sorted.
type Rehearsal struct {
	// Changes are what the changes add, change and remove. An object that is laid over an equal one is left out.
	Changes []Change `json:"changes"`
	// KubeVirt is the version of KubeVirt whose rules apply before and after the changes, such as v1.8; empty if Kiln runs the guests.
	KubeVirt      string `json:"kubeVirt,omitempty"`
	KubeVirtAfter string `json:"kubeVirtAfter,omitempty"`
	// Judged is the number of VMs that have a verdict, and Counts the number of VMs by verdict.
	Judged int             `json:"judged"`
	Counts map[Verdict]int `json:"counts"`
	// Installed are the VMs by verdict that the changes do not touch. They would change by a repin alone, because an installed object is newer than their pin.
	// Counts includes them.
	Installed map[Verdict]int `json:"installed"`
	// RefusedBefore is the number of VMs with a refusal that exists without the changes.
	RefusedBefore int `json:"refusedBefore"`
	// OwnerLabel is the label by which owners are counted.
	OwnerLabel string `json:"ownerLabel"`
	// Groups are the VMs that the changes or a repin touch, by cause and result: those that the changes touch first, then the worst verdicts first, then the
	// largest groups first.
	Groups []Group `json:"groups"`
	// VMs are all VMs, sorted by namespace and name.
	VMs      []VM       `json:"virtualMachines"`
	Unjudged []Unknown  `json:"unjudged"`
	Warnings []string   `json:"warnings"`
	Plan     []PlanItem `json:"-"`
	// Computed is the number of VMs that were reviewed. The others have the result of a VM with the same content.
	Computed int `json:"-"`
}

// Change is one object or setting that the changes concern.
type Change struct {
	catalog.Key
	// Action is 'added', 'changed', 'removed' or 'obsolete'.
	Action string `json:"action"`
	// From and To are revisions: the name of an object and the digest of its content. They are empty for an object that no VM is pinned to.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
	// Source is the value of --with.
	Source string `json:"source"`
}

// Cause is why a VM changes.
type Cause struct {
	catalog.Key
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
	// Installed reports that no change concerns the object: what is installed already is newer than the pin.
	Installed bool `json:"installed,omitempty"`
}

// Refusal is a rule or a policy that refuses a VM.
type Refusal struct {
	// Rule is the name of a rule of Kiln, and Policy the name of a GuestPolicy, if the rule is that a policy denies.
	Rule    string `json:"rule"`
	Policy  string `json:"policy,omitempty"`
	Field   string `json:"field"`
	Message string `json:"message"`
	// Refuses are the requests that are refused: 'create' of the VM, as when it is restored; 'change', an update that takes the new pins; 'start'.
	Refuses []string `json:"refuses"`
}

// Result is what happens to a VM. VMs with the same content share it, so it has nothing of the identity of one of them.
type Result struct {
	Verdict Verdict `json:"verdict"`
	Causes  []Cause `json:"causes,omitempty"`
	// Changes are what the guest notices.
	Changes []record.Change `json:"changes,omitempty"`
	// Rollout says when a running guest gets the change, if KubeVirt runs it.
	Rollout  *validate.Rollout `json:"rollout,omitempty"`
	Refusals []Refusal         `json:"refusals,omitempty"`
	// Before are the refusals that exist without the changes, too.
	Before []Refusal `json:"before,omitempty"`
	// Reason is why the VM is Unjudged.
	Reason string `json:"reason,omitempty"`
	// Pins are the pins after a repin with the changes.
	Pins *PlannedPins `json:"pins,omitempty"`
}

// Group has the VMs with the same causes and the same result.
type Group struct {
	// ID is the number of the group in the list, from 1.
	ID      int     `json:"id"`
	Verdict Verdict `json:"verdict"`
	// Installed reports that no change concerns the VMs: a repin alone would change them.
	Installed bool              `json:"installed,omitempty"`
	Causes    []Cause           `json:"causes"`
	Changes   []record.Change   `json:"changes"`
	Rollout   *validate.Rollout `json:"rollout,omitempty"`
	Refusals  []Refusal         `json:"refusals"`
	VMs       int               `json:"virtualMachines"`
	// Namespaces and Owners count the VMs: the largest number first. The owner of a VM without the label is empty.
	Namespaces []Count `json:"namespaces"`
	Owners     []Count `json:"owners"`
	// Example is the first VM, as NAMESPACE/NAME.
	Example string `json:"example"`
}

// Count is a number of VMs.
type Count struct {
	Name string `json:"name"`
	VMs  int    `json:"virtualMachines"`
}

// VM is the verdict on one VM.
type VM struct {
	Namespace string  `json:"namespace"`
	Name      string  `json:"name"`
	Owner     string  `json:"owner,omitempty"`
	Verdict   Verdict `json:"verdict"`
	// Group is the ID of the VM's group; 0 if nothing touches the VM.
	Group int `json:"group,omitempty"`
}

// Unknown is a VM, or a file of a dump, that has no verdict.
type Unknown struct {
	What   string `json:"what"`
	Reason string `json:"reason"`
}

// Touched returns the number of VMs with a verdict, without those that a repin alone would change.
func (r *Rehearsal) Touched(v Verdict) int { return r.Counts[v] - r.Installed[v] }
