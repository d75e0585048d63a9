package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/internal/cli/cmdutil/table"
	"github.com/kilnvm/kiln/internal/workbench/audit"
	"github.com/kilnvm/kiln/pkg/instancetype"
	"github.com/kilnvm/kiln/pkg/validate"
	"github.com/spf13/cobra"
)

// auditRun is a run of 'audit'.
type auditRun struct{ cmdutil.Inputs }

// auditCommand returns 'audit'. It only reads. Its exit statuses are the same as of 'policy audit'.
func auditCommand(s *cmdutil.Session) *cobra.Command {
	o := &auditRun{cmdutil.NewInputs(s)}
	cmd := &cobra.Command{
		Use:   "audit [-A | -f FILE|DIR|-]",
		Short: "List what is stored and would be refused by Kiln",
		Long: "List the VMs, the VMIs without a VM, the instancetypes, preferences and presets that exist and would be refused by Kiln: in the\n" +
			"namespace, with -A in the cluster, with -f in a dump, which is files of 'kubectl get -o yaml' or folders with such files.\n" +
			"Kiln need not be installed, and rights to read are enough.\n\n" +
			"CREATE counts objects that are refused on a create, which restores or replaces them; CHANGE, on a change of their spec; START,\n" +
			"when a controller creates the VMI of the VM. Updates of labels and annotations are not refused. KUBEVIRT says what KubeVirt 1.9\n" +
			"does with objects that break the rule: it refuses all of them, only the VMI, only some, or it admits them.\n\n" +
			"The exit status is 0 if nothing would be refused, 1 if something would, and 2 if something cannot be read or judged completely.\n" +
			"A file has at most 64 MiB: split a larger dump into a folder of files.",
		Example: "  kubectl kiln audit -A\n" +
			"  kubectl get kubevirt,namespace,vm,vmi,vmipreset,vmf,vmcf,vmp,vmcp,controllerrevision -A -o yaml > dump.yaml\n" +
			"  kubectl kiln audit -f dump.yaml --runtime kubevirt -o json | jq -r '.objects[] | [.namespace, .name] | @tsv'",
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	all := flags.BoolP("all-namespaces", "A", false, "audit all namespaces, and the kinds that have no namespace")
	flags.StringSliceVarP(&o.Files.Names, "filename", "f", nil, "file, directory or - with a dump of a cluster, instead of the cluster")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		found, err := o.makeAudit(cmd.Context(), *all)
		if err != nil {
			return err
		}
		o.Warn(found.Warnings...)
		return o.printAudit(found)
	}
	o.AddConfig(cmd)
	o.AddPolicies(cmd)
	o.AddOutput(cmd, "text", "text", "wide", "name", "json", "yaml")
	o.Answers(cmd, "Audit", audit.Audit{})
	return cmd
}

// makeAudit audits the dump if the user named one, and otherwise the cluster.
func (o *auditRun) makeAudit(ctx context.Context, everywhere bool) (*audit.Audit, error) {
	if o.Files.Named() {
		dump, err := o.Files.ReadDump()
		if err != nil {
			return nil, err
		}
		found, err := audit.OfDump(ctx, &o.Bench, dump)
		if err == nil && len(found.Judged)+len(found.Unjudged) == 0 {
			err = o.NothingFound("object that Kiln judges", nil)
		}
		return found, err
	}
	cluster, namespace, err := o.ScopedClient(everywhere)
	if err != nil {
		return nil, err
	}
	return audit.OfCluster(ctx, &o.Bench, cluster, namespace)
}

// printAudit prints the rules and then the objects, and the counts on standard error. It returns ErrUnanswered if something could not be judged, and otherwise
// ErrRejected if something would be refused. It replaces control characters, because tenants wrote names and values.
func (o *auditRun) printAudit(a *audit.Audit) (outcome error) {
	if len(a.Objects) > 0 {
		outcome = cmdutil.ErrRejected
	}
	if len(a.Unjudged)+len(a.Incomplete) > 0 {
		outcome = cmdutil.ErrUnanswered
	}
	if o.Documents {
		return errors.Join(o.Print(*a), outcome)
	}
	if o.Output == "name" {
		var names []string
		for _, object := range a.Objects {
			names = append(names, cmdutil.ResourceName(object.Kind, object.Name))
		}
		if err := o.PrintNames(names); err != nil {
			return err
		}
		o.printCounts(a)
		return outcome
	}
	if err := o.printRules(a); err != nil {
		return err
	}
	for _, object := range a.Objects {
		name := shortKinds[object.Kind] + "/" + object.Name
		if object.Namespace != "" {
			name = object.Namespace + " " + name
		}
		fmt.Fprintf(o.Out, "\n%s\n", cmdutil.Printable(name))
		for _, f := range object.Findings {
			at := ""
			if f.Line > 0 {
				at = fmt.Sprintf(" (%s:%d)", f.File, f.Line)
			}
			fmt.Fprintf(o.Out, "  %s\n", cmdutil.Printable(fmt.Sprintf("%s: %s [%s, on %s]%s", f.Field, f.Message, f.Rule, strings.Join(f.Refuses, ", "), at)))
		}
		if object.More > 0 {
			fmt.Fprintf(o.Out, "  and %d more\n", object.More)
		}
	}
	o.printCounts(a)
	return outcome
}

// shortKinds are short names of KubeVirt's definitions, which kubectl accepts.
var shortKinds = map[string]string{
	"VirtualMachine": "vm", "VirtualMachineInstance": "vmi", "VirtualMachineInstancePreset": "vmipreset",
	instancetype.Kinds.Namespaced: "vmf", instancetype.Kinds.Cluster: "vmcf",
	instancetype.PreferenceKinds.Namespaced: "vmp", instancetype.PreferenceKinds.Cluster: "vmcp",
}

// printRules prints one line for each rule, with an example.
func (o *auditRun) printRules(a *audit.Audit) error {
	if len(a.Rules) == 0 {
		return nil
	}
	var rows [][]string
	for _, r := range a.Rules {
		row := []string{r.Rule, fmt.Sprint(r.Objects)}
		for _, request := range audit.Requests {
			row = append(row, fmt.Sprint(r.Refuses[request]))
		}
		rows = append(rows, append(row, string(r.KubeVirt), r.Example, r.Field, r.Message))
	}
	columns := slices.Concat(table.Columns("RULE", "OBJECTS", "CREATE", "CHANGE", "START", "KUBEVIRT", "EXAMPLE"), table.WideColumns("FIELD"),
		table.Columns("SAYS"))
	return table.Print(&o.Printer, columns, rows)
}

// printCounts prints on standard error what was judged, what could not be, and where Kiln refuses less.
func (o *auditRun) printCounts(a *audit.Audit) {
	say := func(format string, args ...any) {
		fmt.Fprintln(o.ErrOut, cmdutil.Printable(fmt.Sprintf(format, args...)))
	}
	var why cmdutil.Reasons
	for _, u := range a.Unjudged {
		why.Add(u.What, strings.TrimPrefix(u.Reason, u.What+": "))
	}
	for _, reason := range why.Lines() {
		say("error: %s", reason)
	}
	if n := len(a.Incomplete); n > 0 {
		say("error: %s to an instancetype or preference that was not found, and the rules that need it were not applied, for example %s. For a dump, name the "+
			"file of the missing object with a further -f", countText(n, "VM refers", "VMs refer"), a.Incomplete[0])
	}
	for _, n := range a.Namespaces {
		say("namespace %s has label kilnvm.io/admission: %s", n.Name, n.Admission)
	}
	judged := 0
	for _, n := range a.Judged {
		judged += n
	}
	by := a.ByKubeVirt()
	rules := ""
	if a.KubeVirt != "" {
		rules = " by the rules of Kiln beside KubeVirt " + a.KubeVirt
	}
	say("%s judged%s, %d would be refused by %s. Of these, KubeVirt refuses %d, refuses %d when the VM starts, may refuse %d, and admits %d",
		cmdutil.Counted(judged, "object"), rules, len(a.Objects), cmdutil.Counted(len(a.Rules), "rule"),
		by[validate.KubeVirtRefuses], by[validate.KubeVirtRefusesVMI], by[validate.KubeVirtRefusesSome], by[validate.KubeVirtAdmits])
}

// countText returns a number with the form of a noun for it.
func countText(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
