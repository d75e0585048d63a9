// Command kubectl-kiln is the kubectl plugin 'kubectl kiln'. kubectl finds it in the PATH by its name. Package internal/cli has its commands, and
// internal/cli/cmdutil its exit statuses.
package main

import (
	"os"
	"path/filepath"

	"github.com/kilnvm/kiln/internal/cli"
	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/spf13/cobra"
	_ "golang.org/x/crypto/x509roots/fallback" // Mozilla's certificate authorities, where the system has none: the image 'kiln' has no such file
	"k8s.io/cli-runtime/pkg/genericclioptions"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // the logins that kubeconfig files name
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
)

func main() {
	klog.SetLogger(klog.Logger{}) // a logger without a sink, because commands return the errors that client-go logs
	// Each warning of the API server is printed only once, and to standard error, because scripts parse standard output.
	rest.SetDefaultWarningHandler(rest.NewWarningWriter(os.Stderr, rest.WarningWriterOptions{Deduplicate: true}))
	streams := genericclioptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	command := cli.Command(streams)
	if filepath.Base(os.Args[0]) == "kubectl_complete-kiln" { // kubectl completes a plugin by a program of this name
		command.SetArgs(append([]string{cobra.ShellCompRequestCmd}, os.Args[1:]...))
	}
	err := command.Execute()
	if err != nil && !cmdutil.Answered(err) {
		cmdutil.PrintFault(cmdutil.Wrapped(os.Stderr), err)
	}
	os.Exit(cmdutil.ExitStatus(err))
}
