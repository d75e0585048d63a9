// Command kubectl-kiln is the kubectl plugin 'kubectl kiln'. kubectl finds it by its name in the PATH. Package cli has its commands and the
// meaning of its exit statuses.
package main

import (
	"os"

	"github.com/kilnvm/kiln/internal/cli"
	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	_ "golang.org/x/crypto/x509roots/fallback" // Mozilla's certificate authorities, where the system has none: the image 'kiln' has no such file
	"k8s.io/cli-runtime/pkg/genericclioptions"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // the logins that kubeconfig files name
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
)

func main() {
	klog.SetLogger(klog.Logger{}) // a logger without a sink: commands return as errors what client-go logs
	// Warnings of the API server go to standard error, each once: standard output is the answer, which scripts parse.
	rest.SetDefaultWarningHandler(rest.NewWarningWriter(os.Stderr, rest.WarningWriterOptions{Deduplicate: true}))
	streams := genericclioptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	err := cli.Command(streams).Execute()
	if err != nil && !cmdutil.Answered(err) {
		cmdutil.PrintFault(os.Stderr, err)
	}
	os.Exit(cmdutil.ExitStatus(err))
}
