// Command webhook is the admission server and the controllers of Kiln in one process.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/kilnvm/kiln/certs"
	"github.com/kilnvm/kiln/internal/version"
	"github.com/spf13/cobra"
	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	ctrl.SetLogger(logr.FromSlogHandler(slog.NewTextHandler(os.Stderr, nil)))
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "webhook:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:          "webhook",
		Short:        "Kiln's admission server and controllers",
		Args:         cobra.NoArgs,
		SilenceUsage: true, SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), o) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.kubeconfig, "kubeconfig", os.Getenv("KUBECONFIG"), "file with access to the cluster; empty inside of a cluster")
	flags.StringVar(&o.host, "host", "0.0.0.0", "address to serve webhooks on")
	flags.IntVar(&o.port, "port", 9443, "port to serve webhooks on")
	flags.StringVar(&o.certs, "certs", "/etc/kiln/certs", "directory of tls.crt and tls.key; a change of them is served without a restart")
	flags.StringVar(&o.rotate, "rotate", "", "sign own certificates in Secret kiln-system/kiln-webhook-tls, which is 'mounted' at --certs, or 'mirrored' there by this process; empty if others sign")
	flags.StringVar(&o.names, "names", "", "further DNS names of certificates signed here, separated by commas")
	flags.StringVar(&o.config, "config", "", "file with a KubeVirt object or its spec.configuration; empty for the KubeVirt object of the cluster, or the defaults where there is none")
	flags.StringVar(&o.health, "health", "0.0.0.0:8081", "address of /healthz and /readyz")
	flags.StringVar(&o.metrics, "metrics", "0", "address of /metrics; 0 for none")
	flags.StringVar(&o.leader, "leader-namespace", "", "namespace of the lease by which replicas elect who runs the controllers; empty for a single replica")
	flags.DurationVar(&o.drain, "drain", 0, "how long to go on serving, not ready, after a signal to stop: until no load balancer sends requests any more")
	flags.DurationVar(&o.collect, "collect-after", time.Hour, "how long a revision must have been unused before it is removed, at least 10m")
	version.Add(cmd)
	return cmd
}

// run serves until the context ends, then drains.
func run(ctx context.Context, o options) error {
	serving := certs.Watch(o.certs)
	mgr, err := newManager(o)
	if err != nil {
		return err
	}
	configuration, err := configure(ctx, mgr, o.config)
	if err != nil {
		return err
	}
	if err := certificates(mgr, o, serving); err != nil {
		return err
	}
	if err := serve(mgr, configuration, endpoint{o, serving}); err != nil {
		return err
	}
	if err := watch(ctx, mgr); err != nil {
		return err
	}
	if err := probe(ctx, mgr, configuration); err != nil {
		return err
	}
	return mgr.Start(drained(ctx, o.drain))
}
