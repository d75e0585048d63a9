// Package command is what the processes of Kiln have in common: flags with the names of Kubernetes' own components, log, health, metrics and exit
// status.
package command

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/kilnvm/kiln/internal/version"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

// Main runs a program until it ends, or until SIGINT or SIGTERM. It exits with status 1 after an error.
func Main(cmd *cobra.Command) {
	version.Add(cmd)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := cmd.ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", cmd.Name(), err)
		os.Exit(1)
	}
}

// Log sends log entries of controller-runtime, client-go and the process itself to standard error, from a level on.
func Log(from slog.Level) logr.Logger {
	log := logr.FromSlogHandler(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: from}))
	ctrl.SetLogger(log)
	klog.SetLogger(log)
	return log
}
