package kubectl

import (
	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
)

// Complete completes kubectl's flags --namespace, --context and --cluster of a command and of all commands below it.
func (f *Flags) Complete(root *cobra.Command, s *cmdutil.Session) {
	_ = root.RegisterFlagCompletionFunc("namespace", func(cmd *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return s.Names(cmd.Context(), corev1.SchemeGroupVersion.WithKind("Namespace"), false, begun), cobra.ShellCompDirectiveNoFileComp
	})
	for flag, entries := range map[string]func() []string{"context": f.contexts, "cluster": f.clusters} {
		_ = root.RegisterFlagCompletionFunc(flag, func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return entries(), cobra.ShellCompDirectiveNoFileComp
		})
	}
}

// contexts returns the contexts of the kubeconfig.
func (f *Flags) contexts() (names []string) {
	config, err := f.flags.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return nil
	}
	for name := range config.Contexts {
		names = append(names, name)
	}
	return names
}

// clusters returns the clusters of the kubeconfig.
func (f *Flags) clusters() (names []string) {
	config, err := f.flags.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return nil
	}
	for name := range config.Clusters {
		names = append(names, name)
	}
	return names
}
