package catalogcmd

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/internal/cli/cmdutil/table"
	"github.com/kilnvm/kiln/internal/workbench/catalogs"
	"github.com/kilnvm/kiln/pkg/instancetype"
	"github.com/spf13/cobra"
)

// usageRun is a run of 'catalog usage'.
type usageRun struct{ catalogOptions }

// catalogUsageCommand returns 'catalog usage'. The exit status is 0, also if no VM uses an object, and 2 for a name that neither the cluster nor a VM has.
// -n and -A select the namespaces whose VMs are counted.
func catalogUsageCommand(s *cmdutil.Session) *cobra.Command {
	o := &usageRun{newCatalogOptions(s)}
	cmd := &cobra.Command{
		Use:   "usage [NAME | KIND/NAME]",
		Short: "Show which VMs use an instancetype or preference, and what its removal or an edit would do",
		Long: "Show which VMs of the cluster use each instancetype and preference, from which revision, and what its removal or an edit\n" +
			"would do. Objects that no VM uses are shown with --all. With a name only the objects of that name are shown, each with\n" +
			"its VMs.",
		Example: "  kubectl kiln catalog usage -A\n" +
			"  kubectl kiln catalog usage virtualmachineclusterinstancetype/u1.small -A",
		Args: cobra.MaximumNArgs(1),
	}
	everywhere := cmd.Flags().BoolP("all-namespaces", "A", false, "count the VMs of all namespaces")
	all := cmd.Flags().Bool("all", false, "show also objects that no VM uses")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		namespace, err := o.Cluster.Namespace()
		if err != nil {
			return err
		}
		if *everywhere {
			namespace = ""
		}
		cluster, err := o.Client()
		if err != nil {
			return err
		}
		usages, warnings, err := catalogs.Usages(cmd.Context(), &o.Bench, cluster, namespace, time.Now())
		o.Warn(warnings...)
		if err != nil {
			return err
		}
		if len(args) == 0 {
			listed := len(usages)
			if !*all {
				usages = slices.DeleteFunc(usages, func(u catalogs.Usage) bool { return !u.InUse() })
			}
			err := o.printCatalogUsages(usages)
			if unused := listed - len(usages); unused > 0 && !o.Documents {
				fmt.Fprintf(o.ErrOut, "%s that no VM uses: --all shows them\n", cmdutil.Counted(unused, "object"))
			}
			return err
		}
		kind, name, err := objectNamed(args[0])
		if err != nil {
			return err
		}
		usages = slices.DeleteFunc(usages, func(u catalogs.Usage) bool { return u.Name != name || kind != "" && u.Kind != kind })
		if len(usages) == 0 {
			return fmt.Errorf("no instancetype or preference '%s', and no VM that uses one of this name", args[0])
		}
		if o.Output == "wide" || o.Output == "name" {
			return o.printCatalogUsages(usages)
		}
		return o.printCatalogUsage(usages)
	}
	o.AddOutput(cmd, "table", "table", "wide", "name", "json", "yaml")
	o.Answers(cmd, "CatalogUsageList", []catalogs.Usage{})
	return cmd
}

// objectNamed parses NAME or KIND/NAME. The kind is a value that spec.instancetype.kind or spec.preference.kind of a VM may have; empty if it is not given.
func objectNamed(arg string) (kind, name string, err error) {
	word, name, found := strings.Cut(arg, "/")
	if !found {
		return "", arg, nil
	}
	for _, kinds := range []instancetype.KindNames{instancetype.Kinds, instancetype.PreferenceKinds} {
		if kind = kinds.Canonical(word); word != "" && kind != "" {
			return kind, name, nil
		}
	}
	return "", "", fmt.Errorf("'%s' is not a kind of a catalog: use %s", word, strings.ToLower(strings.Join(instancetype.CatalogKinds(), ", ")))
}

// printCatalogUsages prints one line for each object. It replaces control characters, because the name of an object that does not exist is a text that a
// tenant wrote into a VM. In JSON, an empty list is [], not null.
func (o *usageRun) printCatalogUsages(usages []catalogs.Usage) error {
	if o.Documents {
		return o.Print(usages)
	}
	var names []string
	var rows [][]string
	for _, u := range usages {
		names = append(names, cmdutil.ResourceName(u.Kind, u.Name))
		row := []string{objectOf(u), u.State}
		for _, n := range []int{u.VMs, u.Current, u.Outdated, len(u.Unpinned), len(u.Revisions)} {
			row = append(row, fmt.Sprint(n))
		}
		rows = append(rows, append(row, u.Removal, u.Edit))
	}
	if o.Output == "name" {
		return o.PrintNames(names)
	}
	if len(rows) == 0 {
		fmt.Fprintln(o.ErrOut, "no instancetype or preference to list")
	}
	columns := append(table.Columns("OBJECT", "STATE", "VMS", "CURRENT", "OUTDATED", "UNPINNED"), table.WideColumns("REVISIONS", "REMOVAL", "EDIT")...)
	return table.Print(&o.Printer, columns, rows)
}

// printCatalogUsage prints the objects of one name, each with its revisions, the VMs that use them, and what a removal or an edit would do.
func (o *usageRun) printCatalogUsage(usages []catalogs.Usage) error {
	if o.Documents {
		return o.Print(usages)
	}
	for _, u := range usages {
		line := func(format string, values ...any) {
			fmt.Fprintln(o.Out, cmdutil.Printable(fmt.Sprintf(format, values...)))
		}
		line("%s: %s, used by %s", objectOf(u), u.State, cmdutil.Counted(u.VMs, "VM"))
		for _, r := range u.Revisions {
			line("  %s/%s (%s): %s", r.Namespace, r.Revision, r.State, cmdutil.UserNames(r, cmdutil.Shown))
		}
		if len(u.Unpinned) > 0 {
			line("  without a revision: %s", firstNames(u.Unpinned))
		}
		line("  a removal: %s", u.Removal)
		line("  an edit: %s", u.Edit)
	}
	return nil
}

// firstNames lists the first names and counts the others. JSON and YAML have all names.
func firstNames(names []string) string {
	if more := len(names) - cmdutil.Shown; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:cmdutil.Shown], ", "), more)
	}
	return strings.Join(names, ", ")
}

// objectOf returns KIND/NAME, or KIND/NAMESPACE/NAME. The kind is in lower case, as in the output of kubectl.
func objectOf(u catalogs.Usage) string {
	name := u.Name
	if u.Namespace != "" {
		name = u.Namespace + "/" + name
	}
	return strings.ToLower(u.Kind) + "/" + name
}
