package startcheck

import (
	"regexp"
	"slices"
	"strings"
)

// By says who can follow a remedy.
type By string

// Who can follow a remedy.
const (
	Owner        By = "the owner of the VM"
	Admin        By = "an administrator of the cluster"
	OwnerOrAdmin By = "the owner of the VM, or an administrator of the cluster"
	Nobody       By = "nobody: wait"
)

// cause is an entry of the table of causes.
type cause struct {
	// name identifies the cause in tests.
	name string
	// steps are the steps that have the cause; empty for all.
	steps []string
	// reasons are the reasons of findings that have the cause; empty for all.
	reasons []string
	// message is found in the message of the finding; nil for all.
	message *regexp.Regexp
	// because ends the sentence 'The guest does not run, because ...'. sentence replaces the whole sentence. Both may contain placeholders.
	because, sentence string
	// remedy is a sentence. It may contain placeholders.
	remedy string
	by     By
	// asRequested reports that nothing is wrong.
	asRequested bool
}

// causeNotReadable is the cause if no object that the caller may read says why.
var causeNotReadable = cause{name: "not readable", because: "step '{step}' is not known: {shown}",
	remedy: "Ask for the right, or let somebody who has it run this command.",
	by:     Admin}

// causeUnknown is the cause of what the table does not contain.
var causeUnknown = cause{name: "unknown", because: "{object} reports '{reason}: {message}'", remedy: "Read '{describe}'.", by: OwnerOrAdmin}

// causeOf returns the first entry of the table that fits.
func causeOf(v verdict) cause {
	for _, c := range causes {
		if (len(c.steps) == 0 || slices.Contains(c.steps, v.step)) && (len(c.reasons) == 0 || slices.Contains(c.reasons, v.reason)) &&
			(c.message == nil || c.message.MatchString(oneLine(v.message))) {
			return c
		}
	}
	return causeUnknown
}

// writeSentences returns the sentences of a cause. A replacer does not look at what it has inserted, so a text of a tenant cannot insert another one.
func (c cause) writeSentences(o Objects, v verdict) (why, remedy string, by By) {
	fill := strings.NewReplacer("{object}", oneLine(v.object.String()), "{name}", oneLine(v.object.name), "{reason}", oneLine(v.reason), "{message}",
		oneLine(v.message),
		"{shown}", v.shownDetail(), "{step}", v.step, "{vm}", oneLine(o.Name), "{namespace}", oneLine(o.Namespace), "{controller}", o.controllerName(),
		"{describe}", o.describeCommand(v.object))
	why = c.sentence
	if why == "" {
		why = "The guest does not run, because " + c.because
	}
	return withFullStop(fill.Replace(why)), fill.Replace(c.remedy), c.by
}

// withFullStop returns a sentence with a full stop.
func withFullStop(sentence string) string { return strings.TrimRight(sentence, ".: ") + "." }

// describeCommand returns the command of kubectl that prints an object and its events.
func (o Objects) describeCommand(of object) string {
	kind := strings.ToLower(of.kind)
	switch kind {
	case "":
		return "kubectl describe vm -n " + oneLine(o.Namespace) + " " + oneLine(o.Name)
	case "node":
		return "kubectl describe node " + oneLine(of.name)
	}
	return "kubectl describe " + oneLine(kind) + " -n " + oneLine(o.Namespace) + " " + oneLine(of.name)
}
