// Command webhook is the admission server of Kiln. It has no state: every replica gives the same answers.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/kilnvm/kiln/certs"
	"github.com/kilnvm/kiln/internal/admission"
	"github.com/kilnvm/kiln/internal/command"
	"github.com/kilnvm/kiln/internal/enforcement"
	"github.com/kilnvm/kiln/internal/guestpolicy"
	"github.com/kilnvm/kiln/internal/kubevirt/installed"
	"github.com/kilnvm/kiln/internal/kubevirt/virtcontroller"
	"github.com/kilnvm/kiln/internal/review"
	"github.com/kilnvm/kiln/internal/revision"
	"github.com/kilnvm/kiln/pkg/carrier"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/spf13/cobra"
	ctrl "sigs.k8s.io/controller-runtime"
)

func main() { command.Main(newCommand()) }

// newCommand returns the command with the defaults of its flags, which fit manifests/webhook. It serves health checks, and serves metrics only if an address is
// given.
func newCommand() *cobra.Command {
	o := options{Process: command.Process{Health: ":8081", Metrics: "0"}, refusals: slog.LevelDebug}
	cmd := &cobra.Command{
		Use: "webhook", Annotations: map[string]string{"status": command.Status}, Short: "Kiln's admission server", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runWebhook(cmd.Context(), o) },
	}
	o.addFlags(cmd.Flags())
	return cmd
}

// runWebhook serves until the context ends, and for the delay after that. It does not elect a leader: every replica serves.
func runWebhook(ctx context.Context, o options) error {
	if o.refusals > slog.LevelInfo {
		return fmt.Errorf("--log-refusals is %s, must be debug or info", o.refusals)
	}
	if err := installed.CheckGuests(o.guests); err != nil {
		return err
	}
	if err := errors.Join(o.hook.Validate(), enforcement.CheckValue(o.enforcement), config.CheckRuntime(o.runtime)); err != nil {
		return err
	}
	carriers, err := carrier.ParseKinds(o.carriers)
	if err != nil {
		return fmt.Errorf("--carrier: %w", err)
	}
	command.Log(o.LogLevel)
	engine, err := o.NewEngine(ctx, o.config, ctrl.Options{})
	if err != nil {
		return err
	}
	engine.Configuration.KubeVirtVersion, engine.Configuration.Runtime = o.version, config.Runtime(o.runtime)
	engine.Configuration.FollowKubeVirt(ctx, func(ctx context.Context) (bool, error) { return installed.RunsGuests(ctx, o.guests, engine.Live) })
	policies, err := watchObjects(ctx, engine)
	if err != nil {
		return err
	}
	// Admission writes revisions directly, because the VM that it admits must not be stored before its revisions.
	server := &admission.Server{
		Reviewer: review.Reviewer{Resolver: engine.Resolver, Configuration: engine.Configuration.Now, Policies: policies.Now,
			Params: policies.Params.Source, Exceptions: policies.Exceptions.Of, Judged: policies.Count, KubeVirt: virtcontroller.Completer{Hook: o.hook}},
		LauncherHook: o.hook,
		ParamSchema:  policies.Schema,
		MayRead:      admission.AccessReview(engine.Live),
		Enforcement:  o.enforcement,
		Carriers:     carriers,
		Refusals:     -int(o.refusals), // logr's levels are slog's with the opposite sign
		Write: func(ctx context.Context, drafts ...revision.Draft) error {
			return revision.Write(ctx, engine.Live, drafts...)
		},
	}
	if err := command.Publish(append(admission.Metrics(), guestpolicy.Violations)); err != nil {
		return err
	}
	err = addServer(engine, endpoint{
		address: o.address, name: cmp.Or(o.name, certs.Host(o.Namespace)), clients: o.clients, certificate: certs.Watch(o.certs),
		followTLS: engine.Configuration.FollowTLS, hooks: server.Hooks(), stopping: ctx, self: server.SelfTest(o.Namespace),
	})
	if err != nil {
		return err
	}
	return engine.Start(delayedContext(ctx, o.delay))
}

// delayedContext returns a context that ends some time after its parent, and has the parent's values. Kubernetes removes a terminating pod from a Service and
// signals its processes at the same time, so requests still arrive for a while.
func delayedContext(parent context.Context, delay time.Duration) context.Context {
	ctx, cancel := context.WithCancel(context.WithoutCancel(parent))
	context.AfterFunc(parent, func() { time.AfterFunc(delay, cancel) })
	return ctx
}
