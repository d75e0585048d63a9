package cli

import (
	"errors"
	"fmt"
	"io"

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

// judgement is the document of 'validate' for each object, and of every command for each that is rejected.
type judgement struct {
	Object string `json:"object"`
	// Host is the file of the host that cannot run the object; empty if the object is rejected everywhere.
	Host     string   `json:"host,omitempty"`
	Allowed  bool     `json:"allowed"`
	Causes   []cause  `json:"causes"`
	Warnings []string `json:"warnings"`
}

type cause struct {
	Type    string `json:"type"`
	Field   string `json:"field"`
	Message string `json:"message"`
	// File and Line are where the field stands, or the nearest parent of one that is missing.
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
}

func (g guest) judgement() judgement {
	j := judgement{Object: g.name(), Allowed: g.verdict.Allowed(), Causes: []cause{}, Warnings: append([]string{}, g.verdict.Warnings...)}
	for _, e := range g.verdict.Errors {
		c := cause{Type: string(e.Type), Field: e.Field, Message: e.ErrorBody()}
		if at, found := g.find(e.Field); found {
			c.File, c.Line = at.file, at.number
		}
		j.Causes = append(j.Causes, c)
	}
	return j
}

// refuse tells why an object is rejected, as a document if the user asked for documents. host is the file of the host that cannot
// run it, if that is the reason.
func (o *options) refuse(g guest, host string) error {
	if o.documents {
		j := g.judgement()
		j.Host = host
		return o.printRejection(j)
	}
	g.warn(o.ErrOut)
	if host != "" {
		fmt.Fprintf(o.ErrOut, "on %s: ", host)
	}
	g.reject(o.ErrOut)
	return ErrRejected
}

// printRejection prints the document of a rejection.
func (o *options) printRejection(j judgement) error {
	if err := o.print(j); err != nil {
		return err
	}
	return ErrRejected
}

// incomplete is refuse for a VM that refers to what is not there. The webhook admits it, since that may come; but what it would boot
// is not known.
func (o *options) incomplete(g guest) error {
	remedy := "create what it refers to"
	if g.file != "" {
		remedy = "add the missing object's file with -f or --catalog"
	}
	if !o.documents {
		g.warn(o.ErrOut)
		fmt.Fprintf(o.ErrOut, "%s cannot be made explicit: %s\n", g.name(), remedy)
		return ErrRejected
	}
	for _, missing := range g.missing {
		g.verdict.Errors = append(g.verdict.Errors, notFound(missing, remedy))
	}
	if len(g.missing) == 0 {
		g.verdict.Errors = append(g.verdict.Errors, unknowable())
	}
	return o.refuse(g, "")
}

func (g guest) warn(out io.Writer) {
	for _, warning := range g.verdict.Warnings {
		fmt.Fprintf(out, "Warning: %s: %s\n", g.name(), warning)
	}
}

// reject prints every cause of a rejection, and the line where it stands.
func (g guest) reject(out io.Writer) {
	fmt.Fprintf(out, "%s is rejected:\n", g.name())
	for _, err := range g.verdict.Errors {
		fmt.Fprintf(out, "  %s\n", err.Error())
		if at, found := g.find(err.Field); found {
			fmt.Fprintf(out, "    %s\n", at)
		}
	}
}
