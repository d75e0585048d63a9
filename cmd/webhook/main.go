// Command webhook is the admission server of Kiln. It keeps no state: every replica answers alike.
package main

import (
	"context"
	"time"

	"github.com/kilnvm/kiln/internal/admission"
	"github.com/kilnvm/kiln/internal/command"
	"github.com/kilnvm/kiln/internal/review"
	"github.com/kilnvm/kiln/internal/revision"
	"github.com/spf13/cobra"
	ctrl "sigs.k8s.io/controller-runtime"
)

// options are the flags. delay is the time that the process serves on after a signal to stop.
type options struct {
	command.Process
	address, certs, config string
	delay                  time.Duration
}

func main() { command.Main(root()) }

// root returns the command with the defaults of its flags, which fit the manifests of manifests/webhook: health checks are served,
// metrics only where an address is given.
func root() *cobra.Command {
	o := options{Process: command.Process{Health: ":8081", Metrics: "0"}}
	cmd := &cobra.Command{
		Use: "webhook", Short: "Kiln's admission server", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), o) },
	}
	flags := cmd.Flags()
	o.AddAccess(flags)
	o.AddNamespaces(flags)
	o.AddServing(flags)
	flags.StringVar(&o.address, "webhook-bind-address", ":9443", "address of the webhooks")
	flags.StringVar(&o.certs, "cert-dir", "/etc/kiln/certs", "folder of tls.crt and tls.key, which are read again when they change")
	flags.StringVar(&o.config, "config", "", command.ConfigUsage)
	flags.DurationVar(&o.delay, "shutdown-delay-duration", 0,
		"time to go on serving, not ready, after a signal to stop, until load balancers have noticed")
	return cmd
}

// run serves until the context ends, and for the delay after it. It elects no leader: every replica serves.
func run(ctx context.Context, o options) error {
	command.Log(o.LogLevel)
	engine, err := o.NewEngine(ctx, o.config, ctrl.Options{})
	if err != nil {
		return err
	}
	certificate, err := follow(engine, o.certs)
	if err != nil {
		return err
	}
	// Admission writes revisions past the cache: the VM that it admits must not be stored before its revision.
	server := &admission.Server{
		Reviewer: review.Reviewer{Resolver: engine.Resolver, Configuration: engine.Configuration.Now},
		MayRead:  admission.AccessReview(engine.Live),
		Write: func(ctx context.Context, drafts ...revision.Draft) error {
			return revision.Write(ctx, engine.Live, drafts...)
		},
	}
	if err := listen(engine, endpoint{address: o.address, certificate: certificate, hooks: server.Hooks()}); err != nil {
		return err
	}
	if err := watch(ctx, engine); err != nil {
		return err
	}
	return engine.Start(delayed(ctx, o.delay))
}

// delayed returns a context that ends some time after its parent. Kubernetes takes a pod that is terminating out of a Service and signals it at the
// same time, so that requests still come for a while. The values of the parent are kept.
func delayed(parent context.Context, delay time.Duration) context.Context {
	ctx, cancel := context.WithCancel(context.WithoutCancel(parent))
	context.AfterFunc(parent, func() { time.AfterFunc(delay, cancel) })
	return ctx
}
