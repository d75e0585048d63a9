// Package command has what the processes of Kiln share: flags with the names that Kubernetes' own components use, log, health, metrics and exit
// status.
package command

import (
	"context"
	"errors"
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

// Main runs a program. SIGINT and SIGTERM cancel its context. If the program fails (see Stopped), Main prints the error and exits with status 1.
func Main(cmd *cobra.Command) {
	version.Add(cmd)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := Stopped(ctx, cmd.ExecuteContext(ctx))
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", cmd.Name(), err)
		os.Exit(1)
	}
}

// Status is a sentence about the exit status of Main, for the reference.
const Status = "The exit status is 0 if the process was asked to end, and 1 for an error."

// Stopped returns the error of a process whose context is ctx, or nil if the error only reports that ctx was cancelled: a process that is asked to
// end while it still starts has not failed.
func Stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// Log makes controller-runtime, client-go and the process itself log to standard error, as lines of JSON, from a level on. So are the lines that net/http
// and others print by package log, such as failed handshakes.
func Log(from slog.Level) logr.Logger {
	to := newLogHandler(os.Stderr, from)
	slog.SetDefault(slog.New(to))
	log := logr.FromSlogHandler(to)
	ctrl.SetLogger(log)
	klog.SetLogger(log)
	return log
}
