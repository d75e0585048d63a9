package kubectl

import (
	"errors"
	"fmt"
	"net/url"

	"github.com/kilnvm/kiln/internal/oci"
	"github.com/spf13/cobra"
)

// WrapConnectionErrors wraps all commands and their subcommands. If no cluster answers, they return one line that says what to do, instead of client-go's
// error. Commands that are added later, such as version, options and completion, do not connect to a cluster.
func (f *Flags) WrapConnectionErrors(commands []*cobra.Command) {
	for _, command := range commands {
		f.WrapConnectionErrors(command.Commands())
		run := command.RunE
		if run == nil {
			continue
		}
		command.RunE = func(cmd *cobra.Command, args []string) error { return f.explainUnreachable(cmd, run(cmd, args)) }
	}
}

// explainUnreachable adds to an error of the connection what the user can do, and removes the path of the URL. It returns any other error unchanged. An error
// with the operation 'parse' is about a URL that the user wrote.
func (f *Flags) explainUnreachable(cmd *cobra.Command, err error) error {
	var failed *url.Error
	var registry *oci.Error // no flag of a cluster helps with a registry
	if !errors.As(err, &failed) || failed.Op == "parse" || errors.As(err, &registry) {
		return err
	}
	remedy := "use --kubeconfig or --context"
	if cmd.Flags().Lookup("filename") != nil {
		remedy += ", or files with -f"
	}
	// With --server, no kubeconfig is needed.
	config, invalid := f.flags.ToRawKubeConfigLoader().RawConfig()
	if invalid == nil && len(config.Clusters) == 0 && (f.flags.APIServer == nil || *f.flags.APIServer == "") {
		return fmt.Errorf("no cluster is known, since there is no kubeconfig: %s", remedy)
	}
	server := failed.URL
	if at, err := url.Parse(failed.URL); err == nil {
		server = at.Scheme + "://" + at.Host
	}
	return fmt.Errorf("no cluster answers at %s (%w): %s", server, failed.Err, remedy)
}
