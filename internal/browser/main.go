//go:build js && wasm

// Program browser is 'kubectl kiln' in a web page, as WebAssembly: it runs those commands of package guestcmd that the page has, on files that the page keeps
// in memory. It has no cluster, and links no client of one. 'go run ./internal/browser/build' builds it, and internal/site/try-worker.js calls it.
package main

import (
	"bytes"
	"syscall/js"

	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/internal/cli/guestcmd"
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/klog/v2"
)

func main() {
	klog.SetLogger(klog.Logger{}) // a logger without a sink, because commands return the errors that client-go logs
	js.Global().Set("kiln", js.FuncOf(start))
	select {}
}

// start runs a command: kiln(args, done) calls done(out, errors, status) when it has ended. It does not wait for the end, because a function that JavaScript
// calls blocks all goroutines until it returns.
func start(_ js.Value, arguments []js.Value) any {
	var args []string
	for i := range arguments[0].Length() {
		args = append(args, arguments[0].Index(i).String())
	}
	go func() {
		out, errOut, status := run(args)
		arguments[1].Invoke(out, errOut, status)
	}()
	return nil
}

// run returns what a command prints to standard output and to standard error, and its exit status, as cmd/kubectl-kiln does.
func run(args []string) (out, errOut string, status int) {
	var stdout, stderr bytes.Buffer
	command := rootCommand(genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &stdout, ErrOut: &stderr})
	command.SetArgs(args)
	err := command.Execute()
	if err != nil && !cmdutil.Answered(err) {
		cmdutil.PrintFault(&stderr, err)
	}
	return stdout.String(), stderr.String(), cmdutil.ExitStatus(err)
}

// rootCommand returns the commands of the page. It sets no template of cobra's: the package text/template calls methods by their names, and a program that has
// it keeps every exported method of every type, which is more than half of the program.
func rootCommand(streams genericiooptions.IOStreams) *cobra.Command {
	s := &cmdutil.Session{IOStreams: streams, Cluster: noCluster{}, BuildKustomization: buildNoKustomization}
	root := &cobra.Command{
		Use: "kubectl-kiln", Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl kiln"}, SilenceUsage: true, SilenceErrors: true,
	}
	root.AddCommand(guestcmd.ValidateCommand(s), guestcmd.ExplainCommand(s), guestcmd.RenderCommand(s), guestcmd.DiffCommand(s))
	cmdutil.RefuseUnknown(root)
	root.SetOut(streams.Out)
	root.SetErr(streams.ErrOut)
	cmdutil.ExplainUsage(root)
	return root
}
