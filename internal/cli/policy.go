package cli

import (
	"fmt"
	"strings"

	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
	"github.com/kilnvm/kiln/internal/workbench/policytest"
	"github.com/spf13/cobra"
)

// policyTestRun is a run of 'policy test'.
type policyTestRun struct{ cmdutil.Inputs }

// policyCommand returns 'policy', the commands for authors of GuestPolicies. Authors of VMs use 'validate --policy'.
func policyCommand(s *cmdutil.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Test GuestPolicies, and say what they do to VMs",
		Long: "Test GuestPolicies, and say what they do to VMs. Policies are evaluated with the code of Kiln's webhook, and have the\n" +
			"same answers on this machine and in the cluster.",
		Example: "  kubectl kiln policy test policies/\n" +
			"  kubectl kiln policy audit -A --policy policies/",
	}
	cmd.AddCommand(policyApproveCommand(s), policyAuditCommand(s), policyCompileCommand(s), policyTestCommand(s), policyWhyCommand(s))
	cmdutil.RefuseUnknown(cmd)
	return cmd
}

// policyTestCommand returns 'policy test'. The report is printed to standard output, also if a case fails.
// The exit status is also 1 if no case violates a validation, because such a validation is not tested.
func policyTestCommand(s *cmdutil.Session) *cobra.Command {
	o := &policyTestRun{cmdutil.NewInputs(s)}
	cmd := &cobra.Command{
		Use:   "test DIR|FILE",
		Short: "Run the cases beside policies",
		Long: "Run the cases of the GuestPolicyTests in a folder on the GuestPolicies in it. One line is printed for each case. A case that\n" +
			"fails is printed with what it expected and what the policy answered. A policy without a case, and a validation that no case\n" +
			"violates, are failures too.\n\n" +
			"The exit status is 0 if everything has passed, 1 if not, and 2 if a file cannot be read or the folder has no policy.",
		Example: "  kubectl kiln policy test examples/policies\n" +
			"  kubectl kiln policy test policies/ -o json | jq '.cases[] | select(.passed | not)'",
		Args: cobra.ExactArgs(1),
	}
	o.AddConfig(cmd)
	o.AddOutput(cmd, "text", "text", "json", "yaml")
	o.Answers(cmd, "PolicyTestReport", policytest.Report{})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		files, err := manifest.ReadFolder(args[0], o.In)
		if err != nil {
			return err
		}
		report, err := policytest.Run(cmd.Context(), &o.Bench, args[0], files)
		if err != nil {
			return err
		}
		if report.Policies == 0 && len(report.Findings) == 0 {
			return fmt.Errorf("no GuestPolicy in %s", args[0])
		}
		if o.Documents {
			err = o.Print(report)
		} else {
			o.printPolicyReport(report)
		}
		if err != nil {
			return err
		}
		return policyOutcome(report)
	}
	return cmd
}

// policyOutcome returns ErrUnanswered if a file could not be read, and otherwise ErrRejected if there is a failed case or a finding.
func policyOutcome(r policytest.Report) (outcome error) {
	if r.Failed > 0 {
		outcome = cmdutil.ErrRejected
	}
	for _, f := range r.Findings {
		if f.Rule == policytest.RuleUnreadable {
			return cmdutil.ErrUnanswered
		}
		outcome = cmdutil.ErrRejected
	}
	return outcome
}

// printPolicyReport prints each case and finding, with FILE:LINE if there is something to correct, and then the counts, in which a finding is a failure, as in
// the exit status. It replaces control characters, because names, messages and files are not trusted.
func (o *policyTestRun) printPolicyReport(r policytest.Report) {
	say := func(mark, format string, args ...any) {
		fmt.Fprintln(o.Out, mark+cmdutil.Printable(fmt.Sprintf(format, args...)))
	}
	passed, failed := cmdutil.Paint(o.Out, cmdutil.Green, "ok")+"    ", cmdutil.Paint(o.Out, cmdutil.Red, "FAIL")+"  "
	for _, c := range r.Cases {
		if c.Passed {
			say(passed, "%s: %s", c.Policy, c.Name)
			continue
		}
		say(failed, "%s: %s", c.Policy, c.Name)
		say("", "    %s:%d: %s", c.File, c.Line, c.Reason)
	}
	for _, f := range r.Findings {
		at := f.File
		if f.Line > 0 {
			at = fmt.Sprintf("%s:%d", f.File, f.Line)
		}
		policy := ""
		if f.Policy != "" {
			policy = f.Policy + ": "
		}
		say(failed, "%s%s", policy, strings.TrimPrefix(f.Message, f.File+": "))
		say("", "    %s [%s]", at, f.Rule)
	}
	policies := "1 policy"
	if r.Policies != 1 {
		policies = fmt.Sprintf("%d policies", r.Policies)
	}
	say("", "%s: %s: %s passed, %d failed", r.Source, policies, cmdutil.Counted(r.Passed, "case"), r.Failed+len(r.Findings))
}
