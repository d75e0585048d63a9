package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/revision"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func revisionsCommand(o *options) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "revisions",
		Short: "List the snapshots of sizes and preferences, and who uses them",
		Long: "List the snapshots of sizes and preferences that VMs were made from, and who uses them. An outdated one differs from\n" +
			"the size as it is now: its VMs keep it until 'kubectl kiln repin'. One that nobody uses is removed in a while.",
		Example: "  kubectl kiln revisions -n shop\n" +
			"  kubectl kiln revisions -A -o json | jq '.[] | select(.state == \"outdated\").virtualMachines'",
		Args: cobra.NoArgs,
	}
	all := cmd.Flags().BoolP("all-namespaces", "A", false, "list those of all namespaces")
	outdated := cmd.Flags().Bool("outdated", false, "list only those that differ from what they were taken of")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		namespace, _, err := o.cluster.ToRawKubeConfigLoader().Namespace()
		if err != nil {
			return err
		}
		if *all {
			namespace = ""
		}
		reader, err := o.client()
		if err != nil {
			return err
		}
		usages, err := o.usages(cmd.Context(), reader, namespace)
		if err != nil {
			return err
		}
		if *outdated {
			usages = slices.DeleteFunc(usages, func(u revision.Usage) bool { return u.State == revision.Current })
		}
		return o.printUsages(usages, namespace == "")
	}
	o.addConfig(cmd)
	o.addOutput(cmd, "text", "text", "json", "yaml")
	return cmd
}

// usages are those of a namespace. A configuration has no object of its own, so that it is told what that is now, if somebody says so.
func (o *options) usages(ctx context.Context, reader client.Client, namespace string) ([]revision.Usage, error) {
	now, err := o.configuration(ctx, inputs{reader: reader, cluster: reader})
	if err != nil {
		return nil, err
	}
	var unserved []map[string]any
	if now.Source != "" {
		defaults, err := config.Snapshot(now.Defaults)
		if err != nil {
			return nil, err
		}
		unserved = append(unserved, defaults)
	}
	usages, err := revision.Usages(ctx, reader, namespace, unserved...)
	seen := map[string]bool{}
	for _, u := range usages {
		switch {
		case u.Reason == "" || seen[u.Kind+u.Reason]:
			continue
		case u.Kind == v1alpha1.KindClusterConfiguration:
			fmt.Fprintln(o.ErrOut, "Warning: whether recorded configurations are current is not known: no KubeVirt object is read; --config FILE names what the webhook reads")
		default:
			fmt.Fprintf(o.ErrOut, "Warning: whether revisions of %s '%s' are current is not known: %s\n", u.Kind, u.Name, u.Reason)
		}
		seen[u.Kind+u.Reason] = true
	}
	return usages, err
}

// client is one for the current cluster.
func (o *options) client() (client.Client, error) {
	known, err := scheme()
	if err != nil {
		return nil, err
	}
	access, err := o.cluster.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	return client.New(access, client.Options{Scheme: known})
}

// shown is how many users of a revision a line has room for.
const shown = 3

func (o *options) printUsages(usages []revision.Usage, namespaces bool) error {
	if o.output != "text" {
		return o.print(append([]revision.Usage{}, usages...))
	}
	table := tabwriter.NewWriter(o.Out, 0, 0, 3, ' ', 0)
	column := func(text string) string {
		if namespaces {
			return text + "\t"
		}
		return ""
	}
	fmt.Fprintf(table, "%sREVISION\tOF\tSTATE\tUSED BY\n", column("NAMESPACE"))
	for _, u := range usages {
		of := "?"
		if u.Kind != "" {
			of = strings.ToLower(u.Kind) + "/" + u.Name
		}
		fmt.Fprintf(table, "%s%s\t%s\t%s\t%s\n", column(u.Namespace), u.Revision, of, u.State, users(u))
	}
	return table.Flush()
}

// users names a few of those who use a revision.
func users(u revision.Usage) string {
	var names []string
	for _, name := range u.VMs {
		names = append(names, "vm/"+name)
	}
	for _, name := range u.VMIs {
		if !slices.Contains(u.VMs, name) { // the guest of a VM has its pins
			names = append(names, "vmi/"+name)
		}
	}
	switch {
	case len(names) == 0 && u.UnusedSince != "":
		return "nobody since " + u.UnusedSince
	case len(names) == 0:
		return "nobody"
	case len(names) > shown:
		return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
	}
	return strings.Join(names, ", ")
}
