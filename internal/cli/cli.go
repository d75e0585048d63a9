// Package cli is 'kubectl kiln': the pipeline of the webhook and the launcher on a person's machine, offline from files or
// against a cluster.
package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
)

// ErrRejected says that at least one object was rejected. Its causes are already printed.
var ErrRejected = errors.New("rejected")

// Command is the root of the plugin's commands, reading from and writing to the streams.
func Command(streams genericclioptions.IOStreams) *cobra.Command {
	options := &options{IOStreams: streams, cluster: genericclioptions.NewConfigFlags(true)}
	root := &cobra.Command{
		Use:   programName(),
		Short: "Expand, judge and render virtual machines",
		Long: "Expand, judge and render virtual machines with the code that Kiln's webhook and launcher run.\n" +
			"With -f nothing but the given files is read; with vm/NAME the current cluster is.",
		SilenceUsage: true, SilenceErrors: true,
	}
	options.cluster.AddFlags(root.PersistentFlags())
	root.PersistentFlags().StringSliceVarP(&options.files, "filename", "f", nil, "file, directory or - with the VMs, and the objects that they refer to")
	root.PersistentFlags().StringVar(&options.catalog, "catalog", "", "directory with further instancetypes, preferences and presets")
	root.PersistentFlags().StringVar(&options.config, "config", "", "file with the cluster's KubeVirt configuration")
	root.AddCommand(expandCommand(options), renderCommand(options), validateCommand(options))
	return root
}

// programName is how the user called us: kubectl shows a plugin kubectl-kiln as 'kubectl kiln'.
func programName() string {
	if strings.HasPrefix(filepath.Base(os.Args[0]), "kubectl-") {
		return "kubectl kiln"
	}
	return "kiln"
}

type options struct {
	genericclioptions.IOStreams
	cluster *genericclioptions.ConfigFlags
	files   []string
	catalog string
	config  string
	output  string
	host    string
}

// addOutput gives a command its -o flag. The commands share the options, so that the flag is read when its command runs.
func (o *options) addOutput(cmd *cobra.Command, fallback string, formats ...string) {
	choice := strings.Join(formats, " or ")
	format := cmd.Flags().StringP("output", "o", fallback, "output format: "+choice)
	cmd.PreRunE = func(*cobra.Command, []string) error {
		o.output = *format
		if !slices.Contains(formats, o.output) {
			return fmt.Errorf("--output '%s' is not supported, use %s", o.output, choice)
		}
		return nil
	}
}

// eachGuest runs the whole of stage 1 on each VM and VMI that the user named and hands it to visit. It reports rejected
// objects, and returns ErrRejected if there were any.
func (o *options) eachGuest(cmd *cobra.Command, args []string, visit func(guest) error) error {
	guests, err := o.guests(cmd.Context(), args)
	if err != nil {
		return err
	}
	found, rejected := false, false
	for _, g := range guests {
		g.warn(o.ErrOut)
		switch {
		case !g.verdict.Allowed():
			g.reject(o.ErrOut)
			rejected = true
		case g.explicit == nil:
			continue
		case g.unknown:
			fmt.Fprintf(o.ErrOut, "%s cannot be made explicit: add the missing object's file with -f or --catalog\n", g.name())
			rejected = true
		default:
			if err := visit(g); err != nil {
				return fmt.Errorf("%s: %w", g.name(), err)
			}
		}
		found = true
	}
	switch {
	case rejected:
		return ErrRejected
	case !found:
		return errors.New("no VirtualMachine or VirtualMachineInstance found")
	}
	return nil
}
