package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kilnvm/kiln/test/controlplane/node"
)

// wordsOfInit are the hidden subcommand that is process 1 of a node, and wordsOfInside that which it starts.
var wordsOfInit, wordsOfInside = []string{"node", "init"}, []string{"node", "inside"}

// wordsOfMachine are the hidden subcommand that runs a node on a machine of its own.
var wordsOfMachine = []string{"node", "machine"}

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
		&cobra.Command{Use: wordsOfMachine[1], Args: cobra.NoArgs, Hidden: true, RunE: func(*cobra.Command, []string) error {
			return node.RunOnMachine(os.Stdin, os.Stdout, wordsOfInit...)
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
			"of JSON goes to standard output; the type 'node.Ready' has its fields. It needs root.\n" +
			"Other lines are about nodes but the first, and are answered by '{}': 'kill NAME' ends its processes as a power\n" +
			"failure does, and its name starts it again; 'disconnect NAME' and 'connect NAME' pull its cable and put it in.\n" +
			"'prepare NAME' writes the files of a node that runs on another machine; the type 'node.Prepared' has the answer's fields.",
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
	if tools.Runc, err = findFile(ctx, debian, "runc"); err != nil {
		return tools, err
	}
	bridge, err := findFile(ctx, debian, "containernetworking-plugins")
	tools.CNI = filepath.Dir(bridge)
	return tools, err
}

// runNodes obeys each line of standard input, until it ends.
func runNodes(ctx context.Context, o node.Options) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	given := make(chan string)
	go func() {
		defer cancel()
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			given <- lines.Text()
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
		case line := <-given:
			answer, err := executeLine(ctx, cluster, line)
			if ctx.Err() != nil {
				return nil
			}
			if err != nil {
				return err
			}
			if err := json.NewEncoder(os.Stdout).Encode(answer); err != nil {
				return fmt.Errorf("answering '%s': %w", line, err)
			}
		case name := <-cluster.Ended:
			return fmt.Errorf("node '%s' has ended by itself", name)
		case <-ctx.Done():
			return nil
		}
	}
}

// executeLine does what a line of standard input says, and returns the answer.
func executeLine(ctx context.Context, cluster *node.Cluster, line string) (answer any, err error) {
	verb, name, further := strings.Cut(line, " ")
	if !further {
		ready, err := cluster.Add(ctx, line, wordsOfInit...)
		if err == nil {
			printProgress("node '%s' is ready after %d ms", line, ready.Milliseconds["ready"])
		}
		return ready, err
	}
	switch verb {
	case "prepare":
		prepared, err := cluster.Prepare(name)
		if err != nil {
			return nil, fmt.Errorf("'%s': %w", line, err)
		}
		return prepared, nil
	case "kill":
		err = cluster.Kill(name)
	case "disconnect", "connect":
		err = cluster.Connect(name, verb == "connect")
	default:
		err = errors.New("it is not 'NAME', 'prepare NAME', 'kill NAME', 'disconnect NAME' or 'connect NAME'")
	}
	if err != nil {
		return nil, fmt.Errorf("'%s': %w", line, err)
	}
	printProgress("%s", line)
	return struct{}{}, nil
}
