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

// An error of a command is an answer or a fault. An answer is already printed: main only returns its exit status. Every other error is a fault, which main
// prints.

// Answers. When a command returns one, the objects and their causes are already printed.
var (
	// ErrRejected: at least one object was rejected.
	ErrRejected = errors.New("rejected")
	// ErrNeedsRestart and ErrBreaks are verdicts of 'diff'.
	ErrNeedsRestart = errors.New(string(record.NeedsRestart))
	ErrBreaks       = errors.New(string(record.Breaks))
	// ErrGuestsDiffer is the verdict of 'preset migrate' that a VMI would differ.
	ErrGuestsDiffer = errors.New("guests differ")
	// ErrNotRunning is the verdict of 'why' that a guest is requested and does not run.
	ErrNotRunning = errors.New("the guest does not run")
)

// ErrUnanswered is the fault of a run in which some objects or files have no verdict. The reasons are already printed.
var ErrUnanswered = errors.New("the objects and files named above have no verdict")

// statuses are the exit statuses of answers. The verdicts of 'diff' begin at 3, because 1 means a rejection, and 2 a fault, as in 'kubectl diff'.
// No run has two answers: a comparison has a verdict only if neither side is rejected.
var statuses = []struct {
	answer error
	status int
}{{ErrRejected, 1}, {ErrNotRunning, 1}, {ErrNeedsRestart, 3}, {ErrGuestsDiffer, 3}, {ErrBreaks, 4}}

// noAnswer is the exit status of wrong usage, of a file that cannot be read, and of a cluster that does not answer.
const noAnswer = 2

// ExitStatus returns 0 for nil, 1 for a rejection or a guest that does not run, 3 or 4 for a difference, and 2 for every other error.
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

// Answered reports whether an error is an answer, which is already printed. nil is not an answer.
func Answered(err error) bool { return err != nil && ExitStatus(err) != noAnswer }

// Worse returns the error that determines the exit status: a fault rather than an answer, because a run that has not judged everything has no
// complete answer, and either rather than nil. If both are faults, it returns a.
func Worse(a, b error) error {
	if a == nil || b != nil && Answered(a) {
		return b
	}
	return a
}

// PrintUnanswered prints why an object or a file has no verdict. It returns ErrUnanswered, not the fault, which main would print again.
func (o *Printer) PrintUnanswered(fault error) error {
	PrintFault(o.ErrOut, fault)
	return ErrUnanswered
}

// PrintFault prints an error with the prefix of kubectl's errors. It replaces control characters, because the error may quote a file or the answer of a
// cluster.
func PrintFault(out io.Writer, fault error) {
	fmt.Fprintln(out, Paint(out, Red, "error:"), PrintableLines(WithoutPreamble(fault.Error())))
}

// preamble matches the text that an API server puts before the message of a webhook.
var preamble = regexp.MustCompile(`admission webhook "[^"]*" denied the request: `)

// WithoutPreamble removes the text that an API server puts before the message of a webhook, such as 'admission webhook "x" denied the request: '.
func WithoutPreamble(text string) string { return preamble.ReplaceAllLiteralString(text, "") }

// Warn prints warnings that are not about one object. The prefix is the prefix with which kubectl prints the warnings of an API server.
func (o *Printer) Warn(warnings ...string) {
	for _, warning := range warnings {
		fmt.Fprintf(o.ErrOut, "%s %s\n", Paint(o.ErrOut, Yellow, "Warning:"), Printable(warning))
	}
}

// WarnOf prints the warnings about an object, with its name. The webhook returns the same warnings without the name.
func (o *Printer) WarnOf(r workbench.Reviewed) {
	for _, warning := range r.Verdict.Warnings {
		fmt.Fprintf(o.ErrOut, "%s %s\n", Paint(o.ErrOut, Yellow, "Warning:"), Printable(r.Name()+": "+warning))
	}
}

// PrintNotes prints warnings about the settings that an answer does not include. It prints the warning about profiles that select nodes only once in a run,
// because it is the same for all objects.
func (o *Printer) PrintNotes(n workbench.Notes) {
	o.Warn(n.Warnings...)
	if len(n.ByNode) > 0 && !o.warnedOfNodes {
		o.warnedOfNodes = true
		o.Warn(fmt.Sprintf("HostProfiles with a nodeSelector apply only to a host that --host describes, and are ignored: %q", n.ByNode))
	}
}

// PrintRefusal prints the causes of a workbench.Refusal, and returns ErrRejected. It returns any other error unchanged.
func (o *Printer) PrintRefusal(err error) error {
	var refusal *workbench.Refusal
	if errors.As(err, &refusal) {
		return o.PrintRejectedObject(refusal.Guest, refusal.Host)
	}
	return err
}

// PrintRejectedObject prints why an object is rejected, and returns ErrRejected. With -o json or yaml it prints a document on standard output, otherwise text
// on standard error. host is the file of the host that cannot run the object; empty if the reason is another one.
func (o *Printer) PrintRejectedObject(r workbench.Reviewed, host string) error {
	if o.Documents {
		j := r.Judgement()
		j.Host = host
		return o.PrintJudgement(j)
	}
	o.WarnOf(r)
	if host != "" {
		fmt.Fprintf(o.ErrOut, "on %s: ", Printable(host))
	}
	fmt.Fprintf(o.ErrOut, "%s is %s%s:\n", Printable(r.Name()), Paint(o.ErrOut, Red, "rejected"), o.InFile(r))
	for _, err := range r.Verdict.Errors {
		fmt.Fprintf(o.ErrOut, "  %s\n", Printable(err.Error()))
		if at, found := r.Find(err.Field); found {
			fmt.Fprintf(o.ErrOut, "    %s\n", Printable(at.String()))
		}
	}
	return ErrRejected
}

// InFile returns " in" and the file of an object, if the objects are of several files.
func (o *Printer) InFile(r workbench.Reviewed) string {
	if !o.NameFiles || r.File() == "" {
		return ""
	}
	return " in " + Printable(r.File())
}

// PrintJudgement prints the document of a rejection. It returns ErrRejected, or the error of the output.
func (o *Printer) PrintJudgement(j workbench.Judgement) error {
	if err := o.Print(j); err != nil {
		return err
	}
	return ErrRejected
}

// PrintIncomplete prints that a VM refers to an object that does not exist, and returns ErrRejected. The webhook and 'validate' accept such a VM; the other
// commands have nothing to print.
func (o *Printer) PrintIncomplete(r workbench.Reviewed) error {
	if o.Documents {
		return o.PrintRejectedObject(r.Incomplete(), "")
	}
	o.WarnOf(r)
	fmt.Fprintf(o.ErrOut, "%s cannot be made explicit: %s\n", Printable(r.Name()), r.Remedy())
	return ErrRejected
}

// ReportDifference passes a result through. It prints warnings about settings that the comparison could not read. If a side is refused, it prints the causes
// and returns ErrRejected.
func (o *Printer) ReportDifference(d guestdiff.Difference, err error) (guestdiff.Difference, error) {
	o.PrintNotes(d.Notes)
	if err != nil {
		err = o.PrintRefusal(err)
	}
	return d, err
}
