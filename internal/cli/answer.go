package cli

import (
	"errors"
	"fmt"

	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/kilnvm/kiln/pkg/record"
)

// Answers other than yes. The objects and their causes are printed already.
var (
	// ErrRejected: at least one object was rejected.
	ErrRejected = errors.New("rejected")
	// ErrNeedsRestart and ErrBreaks: what a change means for the guest that 'diff' compares.
	ErrNeedsRestart = errors.New(string(record.NeedsRestart))
	ErrBreaks       = errors.New(string(record.Breaks))
)

// errUnanswered: some objects or files have no verdict. The reasons are printed already.
var errUnanswered = errors.New("the objects and files named above have no verdict")

// statuses are the exit statuses of answers. 'kubectl diff' too has 1 for 'no', and more for an error. A run has one of them: a comparison has a
// verdict only if neither side is rejected.
var statuses = []struct {
	answer error
	status int
}{{ErrRejected, 1}, {ErrNeedsRestart, 3}, {ErrBreaks, 4}}

// noAnswer is the exit status of wrong usage, of a file that cannot be read, and of a cluster that does not answer.
const noAnswer = 2

// ExitStatus returns 0 for nil, 1 for a rejection, 3 or 4 for a difference, and 2 for every other error.
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

// Answered reports whether an error is an answer, which is printed already.
func Answered(err error) bool { return err != nil && ExitStatus(err) != noAnswer }

// worse returns the error that decides on the exit status: no verdict before a rejection.
func worse(a, b error) error {
	if a == nil || b != nil && Answered(a) {
		return b
	}
	return a
}

// unanswered prints why an object or a file has no verdict.
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
		o.warn(fmt.Sprintf("HostProfiles with a nodeSelector apply only to a host that --host describes, and are ignored: %q", n.ByNode))
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
