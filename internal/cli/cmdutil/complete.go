package cmdutil

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/kilnvm/kiln/pkg/instancetype"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// completionTime is how long a shell waits for a cluster after the user has pressed Tab.
	completionTime = 3 * time.Second
	// completionPage is the number of names that a request reads, and mostCompletions the number of names after which no more are read: a namespace may have
	// thousands of VMs.
	completionPage, mostCompletions = 500, 500
)

// Names completes a word by the names of a kind in the cluster. It reads only metadata. Errors offer nothing, because a shell cannot show them.
func (o *Session) Names(ctx context.Context, kind schema.GroupVersionKind, namespaced bool, prefix string) (found []cobra.Completion) {
	ctx, cancel := context.WithTimeout(ctx, completionTime)
	defer cancel()
	cluster, err := o.Client()
	if err != nil {
		return nil
	}
	options := []client.ListOption{client.Limit(completionPage)}
	if namespaced {
		namespace, err := o.Cluster.Namespace()
		if err != nil {
			return nil
		}
		options = append(options, client.InNamespace(namespace))
	}
	for next := ""; ; {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if cluster.List(ctx, list, append(slices.Clone(options), client.Continue(next))...) != nil {
			return found
		}
		for _, item := range list.Items {
			if strings.HasPrefix(item.Name, prefix) {
				found = append(found, item.Name)
			}
		}
		if next = list.Continue; next == "" || len(found) >= mostCompletions {
			return found
		}
	}
}

// CompleteVMs completes the arguments of a command by the names of the VMs of the namespace, after the prefix "vm/" if the command requires it. A command has
// at most this number of arguments; 0 means any.
func (o *Session) CompleteVMs(cmd *cobra.Command, prefix string, most int) {
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if most > 0 && len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var found []cobra.Completion
		for _, name := range o.Names(cmd.Context(), v1.VirtualMachineGroupVersionKind, true, strings.TrimPrefix(begun, prefix)) {
			if !slices.Contains(args, prefix+name) {
				found = append(found, prefix+name)
			}
		}
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

// CompleteObjects completes a flag by the names of instancetypes or preferences, as the flag accepts them: of the cluster by their names, of the namespace with
// their kind.
func (o *Session) CompleteObjects(cmd *cobra.Command, flag string, kinds instancetype.KindNames) {
	ofCluster, namespaced := v1beta1.SchemeGroupVersion.WithKind(kinds.Cluster), v1beta1.SchemeGroupVersion.WithKind(kinds.Namespaced)
	_ = cmd.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		found := o.Names(cmd.Context(), ofCluster, false, begun)
		prefix := strings.ToLower(namespaced.Kind) + "/"
		for _, name := range o.Names(cmd.Context(), namespaced, true, strings.TrimPrefix(begun, prefix)) {
			found = append(found, prefix+name)
		}
		return found, cobra.ShellCompDirectiveNoFileComp
	})
}
