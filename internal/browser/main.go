//go:build js && wasm

// Program browser is 'kubectl kiln' in a web page, as WebAssembly: it runs the commands of package cli on files that the page keeps in memory. It has no
// cluster. 'go run ./internal/browser/build' builds it, and internal/site/try-worker.js calls it.
package main

import (
	"bytes"
	"syscall/js"

	"github.com/kilnvm/kiln/internal/cli"
	"github.com/kilnvm/kiln/internal/cli/cmdutil"
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
	command := cli.Command(genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &stdout, ErrOut: &stderr})
	command.SetArgs(args)
	err := command.Execute()
	if err != nil && !cmdutil.Answered(err) {
		cmdutil.PrintFault(&stderr, err)
	}
	return stdout.String(), stderr.String(), cmdutil.ExitStatus(err)
}
