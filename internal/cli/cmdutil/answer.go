package cmdutil

import (
	"errors"
	"fmt"
	"io"
	"regexp"

	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/kilnvm/kiln/internal/workbench/guestdiff"
	"github.com/kilnvm/kiln/pkg/record"
)

// The errors of commands are answers or faults. An answer is complete and printed already: main prints nothing more and returns its exit
// status. Every other error is a fault, which main prints.

// Answers other than yes. The objects and their causes are printed already.
var (
	// ErrRejected: at least one object was rejected.
	ErrRejected = errors.New("rejected")
	// ErrNeedsRestart and ErrBreaks are verdicts of 'diff'.
	ErrNeedsRestart = errors.New(string(record.NeedsRestart))
	ErrBreaks       = errors.New(string(record.Breaks))
	// ErrGuestsDiffer is the verdict of 'preset migrate' that a VM or VMI would be another one.
	ErrGuestsDiffer = errors.New("guests differ")
)

// ErrUnanswered is the fault of a run in which some objects or files have no verdict. The reasons are printed already.
var ErrUnanswered = errors.New("the objects and files named above have no verdict")

// statuses are the exit statuses of answers. Status 1 is 'no' and 2 a fault, as in 'kubectl diff', so that the verdicts of 'diff' start at
// 3. No run has two answers: a comparison has a verdict only if neither side is rejected.
var statuses = []struct {
	answer error
	status int
}{{ErrRejected, 1}, {ErrNeedsRestart, 3}, {ErrGuestsDiffer, 3}, {ErrBreaks, 4}}

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

// Answered reports whether an error is an answer, which is printed already. nil is none.
func Answered(err error) bool { return err != nil && ExitStatus(err) != noAnswer }

// Worse returns the error that decides on the exit status: a fault before a rejection, because a run that has not judged everything has no
// complete answer.
// nil is better than both. Of two faults the first one stays.
func Worse(a, b error) error {
	if a == nil || b != nil && Answered(a) {
		return b
	}
	return a
}

// Unanswered prints why an object or a file has no verdict.
// It returns errUnanswered and not the fault: main prints a fault, and this one is printed already.
func (o *Printer) Unanswered(fault error) error {
	PrintFault(o.ErrOut, fault)
	return ErrUnanswered
}

// PrintFault prints an error that is no answer. The prefix is that of kubectl's own errors. The text may quote a file or the answer of a cluster, so
// that its control characters are replaced.
func PrintFault(out io.Writer, fault error) {
	fmt.Fprintln(out, "error:", PrintableLines(WithoutPreamble(fault.Error())))
}

// preamble is what an API server puts before the words of a webhook.
var preamble = regexp.MustCompile(`admission webhook "[^"]*" denied the request: `)

// WithoutPreamble returns a text without the name of the webhook that refused something: the user wants to know what is wrong, and not who found it.
func WithoutPreamble(text string) string { return preamble.ReplaceAllLiteralString(text, "") }

// Warn prints warnings that concern no single object.
// The prefix is that of client-go's WarningWriter, by which kubectl prints the warnings of an API server: a filter for one finds the other.
func (o *Printer) Warn(warnings ...string) {
	for _, warning := range warnings {
		fmt.Fprintf(o.ErrOut, "Warning: %s\n", Printable(warning))
	}
}

// WarnOf prints the warnings on an object.
// The webhook returns the same texts, for one object, as warnings of its response. Here the name says which object of a run is meant.
func (o *Printer) WarnOf(r workbench.Reviewed) {
	for _, warning := range r.Verdict.Warnings {
		fmt.Fprintf(o.ErrOut, "Warning: %s\n", Printable(r.Name()+": "+warning))
	}
}

// Note prints the settings that an answer was found without. The warning about profiles that select nodes is printed once a run, because it
// is the same for all objects.
func (o *Printer) Note(n workbench.Notes) {
	o.Warn(n.Warnings...)
	if len(n.ByNode) > 0 && !o.warnedOfNodes {
		o.warnedOfNodes = true
		o.Warn(fmt.Sprintf("HostProfiles with a nodeSelector apply only to a host that --host describes, and are ignored: %q", n.ByNode))
	}
}

// Refused prints why stage 2 or 3 refuses a VMI, and returns ErrRejected. It returns any other error as it is.
func (o *Printer) Refused(err error) error {
	var refusal *workbench.Refusal
	if errors.As(err, &refusal) {
		return o.Refuse(refusal.Guest, refusal.Host)
	}
	return err
}

// Refuse prints why an object is rejected: as a document on standard output with -o json or yaml, where it stands in the place of the
// answer, else as text on standard error. host is the file of the host that cannot run the object, empty for any other reason. It returns
// ErrRejected.
func (o *Printer) Refuse(r workbench.Reviewed, host string) error {
	if o.Documents {
		j := r.Judgement()
		j.Host = host
		return o.PrintRejection(j)
	}
	o.WarnOf(r)
	if host != "" {
		fmt.Fprintf(o.ErrOut, "on %s: ", Printable(host))
	}
	fmt.Fprintf(o.ErrOut, "%s is rejected:\n", Printable(r.Name()))
	for _, err := range r.Verdict.Errors {
		fmt.Fprintf(o.ErrOut, "  %s\n", Printable(err.Error()))
		if at, found := r.Find(err.Field); found {
			fmt.Fprintf(o.ErrOut, "    %s\n", Printable(at.String()))
		}
	}
	return ErrRejected
}

// PrintRejection prints the document of a rejection. It returns ErrRejected.
// An error of the output goes before the rejection: a program that did not get the document has no answer.
func (o *Printer) PrintRejection(j workbench.Judgement) error {
	if err := o.Print(j); err != nil {
		return err
	}
	return ErrRejected
}

// Incomplete prints why a VM cannot be made explicit: what it refers to does not exist. The webhook admits such a VM, so 'validate' accepts
// it; the other commands have nothing to print. It returns ErrRejected.
func (o *Printer) Incomplete(r workbench.Reviewed) error {
	if o.Documents {
		return o.Refuse(r.Incomplete(), "")
	}
	o.WarnOf(r)
	fmt.Fprintf(o.ErrOut, "%s cannot be made explicit: %s\n", Printable(r.Name()), r.Remedy())
	return ErrRejected
}

// ReportDifference prints the settings that a comparison could not read, and why a side is refused.
func (o *Printer) ReportDifference(d guestdiff.Difference, err error) (guestdiff.Difference, error) {
	o.Note(d.Notes)
	if err != nil {
		err = o.Refused(err)
	}
	return d, err
}
