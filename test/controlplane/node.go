package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/kilnvm/kiln/test/controlplane/node"
)

// wordsOfInit are the hidden subcommand that is process 1 of a node, and wordsOfInside that which it starts.
var wordsOfInit, wordsOfInside = []string{"node", "init"}, []string{"node", "inside"}

func nodeCommand() *cobra.Command {
	root := &cobra.Command{Use: "node", Short: "Real Kubernetes nodes with containers, in namespaces of their own"}
	root.AddCommand(
		&cobra.Command{
			Use: "build", Args: cobra.NoArgs, Short: "Find the binaries of nodes, or build them, and print their directories",
			RunE: func(cmd *cobra.Command, _ []string) error {
				tools, err := findTools(cmd.Context())
				if err == nil {
					fmt.Fprintf(cmd.OutOrStdout(), "%s\n%s\n", tools.Kubernetes, tools.Containers)
				}
				return err
			},
		},
		nodeRunCommand(),
		&cobra.Command{Use: wordsOfInit[1], Args: cobra.NoArgs, Hidden: true, RunE: func(*cobra.Command, []string) error {
			status, err := node.Init(wordsOfInside...)
			if err == nil {
				os.Exit(status)
			}
			return err
		}},
		&cobra.Command{Use: wordsOfInside[1], Args: cobra.NoArgs, Hidden: true, RunE: func(*cobra.Command, []string) error {
			return node.Inside(os.Stdin, os.Stdout)
		}},
	)
	return root
}

func nodeRunCommand() *cobra.Command {
	var o node.Options
	cmd := &cobra.Command{
		Use:   "run --dir DIR",
		Short: "Run nodes until standard input ends or a signal arrives",
		Long: "Run nodes until standard input ends or SIGINT, SIGTERM or SIGHUP arrives. Each line of standard input\n" +
			"is the name of a node, which is started; the first has the control plane. When pods can run on it, one line\n" +
			"of JSON goes to standard output; its fields are those of the type 'node.Ready'. It needs root.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runNodes(cmd.Context(), o) },
	}
	cmd.Flags().StringVar(&o.Dir, "dir", "", "directory for kubeconfig, data and logs; what is made there is removed at the end")
	cmd.Flags().StringArrayVar(&o.APIServer, "api-server", nil, "another argument of the API server, such as --v=2 (repeatable)")
	cmd.Flags().StringVar(&o.Kubelet, "kubelet", "", "more YAML for the configuration of the kubelets")
	cmd.Flags().BoolVar(&o.Restart, "restart", false, "start programs that end again, instead of ending")
	_ = cmd.MarkFlagRequired("dir")
	return cmd
}

// findTools finds or builds everything that nodes run. Debian's packages lie beside containerd.
func findTools(ctx context.Context) (tools node.Tools, err error) {
	if tools.Kubernetes, err = nodes.findOrBuild(ctx, ""); err != nil {
		return tools, err
	}
	if tools.Containers, err = containers.findOrBuild(ctx, ""); err != nil {
		return tools, err
	}
	debian := filepath.Join(tools.Containers, "debian")
	if tools.Runc, err = find(ctx, debian, "runc"); err != nil {
		return tools, err
	}
	bridge, err := find(ctx, debian, "containernetworking-plugins")
	tools.CNI = filepath.Dir(bridge)
	return tools, err
}

// runNodes starts a node for each line of standard input, until it ends.
func runNodes(ctx context.Context, o node.Options) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	names := make(chan string)
	go func() {
		defer cancel()
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			names <- lines.Text()
		}
	}()
	if o.Tools, err = findTools(ctx); err != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	o.Stores = filepath.Join(o.Tools.Containers, "store")
	if o.Dir, err = filepath.Abs(o.Dir); err != nil {
		return err
	}
	cluster, err := node.New(o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	for {
		select {
		case name := <-names:
			ready, err := cluster.Add(ctx, name, wordsOfInit...)
			if ctx.Err() != nil {
				return nil
			}
			if err != nil {
				return err
			}
			progress("node '%s' is ready after %d ms", name, ready.Milliseconds["ready"])
			if err := json.NewEncoder(os.Stdout).Encode(ready); err != nil {
				return fmt.Errorf("telling that the node is ready: %w", err)
			}
		case name := <-cluster.Ended:
			return fmt.Errorf("node '%s' has ended by itself", name)
		case <-ctx.Done():
			return nil
		}
	}
}
