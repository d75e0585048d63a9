package cli

import (
	"errors"
	"fmt"

	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/kilnvm/kiln/pkg/record"
)

// Answers other than yes. What they are about is already printed.
var (
	// ErrRejected: at least one object was rejected.
	ErrRejected = errors.New("rejected")
	// ErrNeedsRestart and ErrBreaks: what a change means for the guest that 'diff' compares.
	ErrNeedsRestart = errors.New(string(record.NeedsRestart))
	ErrBreaks       = errors.New(string(record.Breaks))
)

// errUnanswered says that there is no answer for some objects or files. Why not is already printed.
var errUnanswered = errors.New("there is no answer for what is named above")

// statuses are what a shell is told. 'kubectl diff' too has 1 for an answer that is no, and more for none; a comparison has a verdict
// only if neither side was rejected, so that a run has one status.
var statuses = []struct {
	answer error
	status int
}{{ErrRejected, 1}, {ErrNeedsRestart, 3}, {ErrBreaks, 4}}

// noAnswer is the status of wrong usage, of a file that cannot be read, of a cluster that does not answer.
const noAnswer = 2

// ExitStatus is what a shell is told: 0, 1 for a rejection, 3 or 4 for a difference, 2 where there is no answer.
func ExitStatus(err error) int {
	if err == nil {
		return 0
	}
	for _, s := range statuses {
		if errors.Is(err, s.answer) {
			return s.status
		}
	}
	return noAnswer
}

// Answered tells whether an error is an answer, of which nothing is left to print.
func Answered(err error) bool { return err != nil && ExitStatus(err) != noAnswer }

// worse is the error that decides on the exit status: no answer before no.
func worse(a, b error) error {
	if a == nil || b != nil && Answered(a) {
		return b
	}
	return a
}

// unanswered reports why there is no answer for an object or a file.
func (o *options) unanswered(fault error) error {
	fmt.Fprintln(o.ErrOut, "error:", fault)
	return errUnanswered
}

// warn prints warnings that concern no single object.
func (o *options) warn(warnings ...string) {
	for _, warning := range warnings {
		fmt.Fprintf(o.ErrOut, "Warning: %s\n", warning)
	}
}

// warnOf prints the warnings on an object.
func (o *options) warnOf(r workbench.Reviewed) {
	for _, warning := range r.Verdict.Warnings {
		fmt.Fprintf(o.ErrOut, "Warning: %s: %s\n", r.Name(), warning)
	}
}

// note prints what an answer was found without. The profiles that select nodes are named once a run.
func (o *options) note(n workbench.Notes) {
	o.warn(n.Warnings...)
	if len(n.ByNode) > 0 && !o.warnedOfNodes {
		o.warnedOfNodes = true
		o.warn(fmt.Sprintf("HostProfiles that select machines by labels are for hosts of --host alone: %q", n.ByNode))
	}
}

// refused prints why stage 2 or 3 refuses a guest, and returns ErrRejected; other errors are returned as they are.
func (o *options) refused(err error) error {
	var refusal *workbench.Refusal
	if errors.As(err, &refusal) {
		return o.refuse(refusal.Guest, refusal.Host)
	}
	return err
}

// refuse prints why an object is rejected, as a document if the user asked for documents. host is the file of the host that cannot
// run it, if that is the reason. It returns ErrRejected.
func (o *options) refuse(r workbench.Reviewed, host string) error {
	if o.documents {
		j := r.Judgement()
		j.Host = host
		return o.printRejection(j)
	}
	o.warnOf(r)
	if host != "" {
		fmt.Fprintf(o.ErrOut, "on %s: ", host)
	}
	fmt.Fprintf(o.ErrOut, "%s is rejected:\n", r.Name())
	for _, err := range r.Verdict.Errors {
		fmt.Fprintf(o.ErrOut, "  %s\n", err.Error())
		if at, found := r.Find(err.Field); found {
			fmt.Fprintf(o.ErrOut, "    %s\n", at)
		}
	}
	return ErrRejected
}

// printRejection prints the document of a rejection. It returns ErrRejected.
func (o *options) printRejection(j workbench.Judgement) error {
	if err := o.print(j); err != nil {
		return err
	}
	return ErrRejected
}

// incomplete prints why a VM that the webhook admits cannot be made explicit: what it refers to does not exist yet. It returns ErrRejected.
func (o *options) incomplete(r workbench.Reviewed) error {
	if o.documents {
		return o.refuse(r.Incomplete(), "")
	}
	o.warnOf(r)
	fmt.Fprintf(o.ErrOut, "%s cannot be made explicit: %s\n", r.Name(), r.Remedy())
	return ErrRejected
}
