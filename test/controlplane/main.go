// Command controlplane runs a real Kubernetes control plane for development and tests: etcd,
// kube-apiserver and kube-controller-manager as ordinary processes of this machine, no containers.
//
// controller-runtime's envtest is the model of the flags and of the layout of the binaries, but it
// does not serve here for two reasons. It runs no controller manager, so nothing is ever garbage
// collected and a deleted namespace stays "Terminating" for good. And it lives inside the test
// process, so a test that panics, times out or is killed leaves etcd and the API server behind.
// Here a supervisor owns the processes: it stops them when its standard input ends, which happens
// however its starter dies, and the kernel kills them when the supervisor itself is killed.
//
// Linux only: the last part rests on the parent death signal.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	// The parent death signal is sent when the *thread* that started a child ends, not the
	// process. Every child is therefore started from this goroutine, which keeps its thread.
	runtime.LockOSThread()
	// A starter that died also closed the other end of our standard error. Without a handler the
	// next line of progress would end us by SIGPIPE before we have cleaned up.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()

	if err := rootCommand().ExecuteContext(ctx); err != nil {
		printProgress("%v", err)
		os.Exit(1)
	}
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "controlplane",
		Short:         "A real Kubernetes control plane for development and tests",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(buildCommand(), runCommand(), nodeCommand())
	return root
}

func buildCommand() *cobra.Command {
	var bin string
	cmd := &cobra.Command{
		Use:   "build",
		Short: "Find the binaries, or build them, and print their directory",
		Long: "Find the binaries, or build them, and print their directory: $KUBEBUILDER_ASSETS if set,\n" +
			"else bin/k8s of this repository, where those that are missing or of another version are built.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := plane.findOrBuild(cmd.Context(), bin)
			if err == nil {
				fmt.Fprintln(cmd.OutOrStdout(), dir)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&bin, "bin", "", "build into this directory (default bin/k8s of this repository)")
	return cmd
}

func runCommand() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "run --dir DIR",
		Short: "Run a control plane until standard input ends or a signal arrives",
		Long: "Run a control plane until standard input ends or SIGINT, SIGTERM or SIGHUP arrives.\n" +
			"Progress goes to standard error. When the control plane answers and its controllers work, one\n" +
			"line of JSON goes to standard output; the type 'ready' has its fields.\n" +
			"Give it a pipe as standard input and hold the other end: with </dev/null it stops at once.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runControlPlane(cmd.Context(), o)
		},
	}
	cmd.Flags().StringVar(&o.bin, "bin", "", "directory of the binaries (default bin/k8s of this repository)")
	cmd.Flags().StringVar(&o.dir, "dir", "", "directory for kubeconfigs, data and logs; what is made there is removed at the end")
	cmd.Flags().StringArrayVar(&o.users, "user", nil,
		"NAME or NAME=GROUP,GROUP: also write a kubeconfig with a client certificate for this user (repeatable)")
	cmd.Flags().StringVar(&o.audited, "audit-group", "", "record the requests of this group's members in "+auditLog+", beside the logs")
	cmd.Flags().BoolVar(&o.restart, "restart", false, "start etcd, kube-apiserver and kube-controller-manager again when they end")
	_ = cmd.MarkFlagRequired("dir")
	return cmd
}

// printProgress tells a person what is happening; standard output belongs to programs.
func printProgress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "controlplane: "+format+"\n", args...)
}
