package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/internal/cli/cmdutil/table"
	"github.com/kilnvm/kiln/internal/workbench/policyaudit"
	"github.com/kilnvm/kiln/pkg/carrier"
	"github.com/kilnvm/kiln/pkg/policy"
	"github.com/spf13/cobra"
)

// policyAuditRun is a run of 'policy audit'.
type policyAuditRun struct{ cmdutil.Inputs }

// policyAuditCommand returns 'policy audit'. Violations are printed to standard output.
// If there are any, the exit status is 1, so that a pipeline can stop before an administrator changes Warn to Deny.
func policyAuditCommand(s *cmdutil.Session) *cobra.Command {
	o := &policyAuditRun{cmdutil.NewInputs(s)}
	cmd := &cobra.Command{
		Use:   "audit [-A | -f FILE|DIR|- | -k DIR]",
		Short: "List existing VMs that violate a policy",
		Long: "List the VMs of the cluster, the VMIs without a VM, and the objects with templates of VMs, such as VirtualMachinePools, that\n" +
			"violate a GuestPolicy of the cluster or of --policy. They are judged as if they were created now, with the guest that they\n" +
			"boot: a pinned VM with its revisions. With -f or -k, the objects of files are judged. An object that Kiln itself would\n" +
			"refuse now is judged as far as possible.\n\n" +
			"The exit status is 0 if nothing violates a policy, 1 if something does, and 2 if policies or an object cannot be\n" +
			"read. Without a policy nothing violates one.",
		Example: "  kubectl kiln policy audit -A\n" +
			"  kubectl kiln policy audit -A --policy policies/u1.yaml -o json | jq -r '.violations[] | [.namespace, .name] | @tsv'",
		Args: cobra.NoArgs,
	}
	all := cmd.Flags().BoolP("all-namespaces", "A", false, "list the VMs of all namespaces")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		audit, err := o.runAudit(cmd.Context(), *all)
		o.Warn(audit.Warnings...)
		if err != nil {
			return err
		}
		switch {
		case len(audit.Policies) > 0:
		case audit.Forbidden:
			return errors.New("you may not list GuestPolicies: name files with --policy")
		case !o.Documents && len(audit.Unjudged) == 0:
			fmt.Fprintln(o.ErrOut, "there is no GuestPolicy, so nothing violates one; --policy names files with policies")
			return nil
		}
		return o.printAudit(audit)
	}
	flags := cmd.Flags()
	flags.StringSliceVarP(&o.Files.Names, "filename", "f", nil, "file, directory or - with the objects, instead of the objects of the cluster")
	flags.StringSliceVarP(&o.Files.Kustomizations, "kustomize", "k", nil, "directory with a kustomization that builds the objects")
	o.AddContext(cmd)
	o.AddPolicies(cmd)
	cmd.Flags().StringArrayVar(&o.Bench.Carriers, "carrier", nil, carrier.FlagUsage)
	o.AddOutput(cmd, "table", "table", "wide", "name", "json", "yaml")
	o.Answers(cmd, "PolicyAudit", policyaudit.Audit{})
	return cmd
}

// runAudit judges the objects of files if the user named any, and otherwise the objects of the cluster.
func (o *policyAuditRun) runAudit(ctx context.Context, everywhere bool) (policyaudit.Audit, error) {
	if o.Files.Named() {
		in, err := o.Load(o.Files, nil)
		if err != nil {
			return policyaudit.Audit{}, err
		}
		return policyaudit.OfFiles(ctx, &o.Bench, in)
	}
	cluster, namespace, err := o.ScopedClient(everywhere)
	if err != nil {
		return policyaudit.Audit{}, err
	}
	return policyaudit.OfCluster(ctx, &o.Bench, cluster, namespace)
}

// printAudit prints one line for each violation, and the counts on standard error. It returns ErrUnanswered if an object could not be judged, and otherwise
// ErrRejected if there is a violation. It replaces control characters, because policies and VMs contain the messages.
func (o *policyAuditRun) printAudit(a policyaudit.Audit) (outcome error) {
	unpermitted := func(v policyaudit.Violation) bool { return v.Exception == "" }
	if slices.ContainsFunc(a.Violations, unpermitted) {
		outcome = cmdutil.ErrRejected
	}
	if len(a.Unjudged) > 0 {
		outcome = cmdutil.ErrUnanswered
	}
	if o.Documents {
		return errors.Join(o.Print(a), outcome)
	}
	var names []string
	var rows [][]string
	for _, v := range a.Violations {
		message := v.Message
		if v.Param != "" {
			message = v.Param + ": " + message
		}
		var actions []string
		for _, action := range v.Actions {
			actions = append(actions, string(action))
		}
		if v.Exception != "" {
			message += fmt.Sprintf(" (permitted until %s by %s)", policy.FormatExpiry(v.Until.Time), v.Exception)
		}
		if v.Failed {
			actions = append(actions, "the policy cannot be evaluated")
		}
		rows = append(rows, []string{v.Namespace, shortKind(v.Kind) + "/" + v.Name, v.Policy, strings.Join(actions, ", "), message, v.Field})
		names = append(names, cmdutil.ResourceName(v.Kind, v.Name))
	}
	if o.Output == "name" {
		return errors.Join(o.PrintNames(slices.Compact(names)), outcome)
	}
	columns := slices.Concat(table.Columns("NAMESPACE", "NAME", "POLICY"), table.WideColumns("ACTIONS"), table.Columns("MESSAGE", "FIELD"))
	if err := table.Print(&o.Printer, columns, rows); err != nil {
		return err
	}
	for _, u := range a.Unjudged {
		fmt.Fprintln(o.ErrOut, cmdutil.Printable(fmt.Sprintf("error: %s %s/%s: %s", u.Kind, u.Namespace, u.Name, u.Reason)))
	}
	policies := "1 policy"
	if len(a.Policies) != 1 {
		policies = fmt.Sprintf("%d policies", len(a.Policies))
	}
	found := cmdutil.Counted(len(a.Violations), "violation")
	if excepted := len(a.Violations) - countFunc(a.Violations, unpermitted); excepted > 0 {
		found += fmt.Sprintf(", %d of them permitted by GuestPolicyExceptions", excepted)
	}
	fmt.Fprintf(o.ErrOut, "%s by %s: %s\n", cmdutil.Counted(a.Judged, "object"), policies, found)
	return outcome
}

// countFunc returns the number of violations for which a function is true.
func countFunc(all []policyaudit.Violation, is func(policyaudit.Violation) bool) (n int) {
	for _, v := range all {
		if is(v) {
			n++
		}
	}
	return n
}

// shortKind returns the short name of a kind that policies judge, which kubectl accepts.
func shortKind(kind string) string {
	switch kind {
	case "VirtualMachine":
		return "vm"
	case "VirtualMachineInstance":
		return "vmi"
	}
	return strings.ToLower(kind)
}
