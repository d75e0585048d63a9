// Command virtctl has 'create vm' of virtctl v1.9 alone, set up as virtctl's root command does. Package vm is not in this folder: buildVirtctl of the
// test lays virtctl's own over it.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/kilnvm/kiln/test/virtctl/testdata/virtctl/vm"
	"github.com/spf13/cobra"
	"kubevirt.io/client-go/kubecli"
	"kubevirt.io/kubevirt/pkg/virtctl/clientconfig"
)

func main() {
	root := &cobra.Command{Use: "virtctl", SilenceUsage: true, SilenceErrors: true}
	root.SetOut(os.Stdout)
	root.SetContext(clientconfig.NewContext(context.Background(), kubecli.DefaultClientConfig(root.PersistentFlags())))
	create := &cobra.Command{Use: "create"}
	create.AddCommand(vm.NewCommand())
	root.AddCommand(create)
	if err := root.Execute(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
