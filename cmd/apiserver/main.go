// Command apiserver serves subresources.kubevirt.io behind Kubernetes' API server: start, stop, console and the other subresources that virtctl calls. It is
// not part of the webhook, because consoles last for hours and carry any amount of bytes, and admission must not wait for them.
package main

import (
	"context"
	"errors"

	"github.com/kilnvm/kiln/certs"
	"github.com/kilnvm/kiln/internal/command"
	"github.com/kilnvm/kiln/internal/guestmetrics"
	"github.com/kilnvm/kiln/internal/review"
	"github.com/kilnvm/kiln/internal/subresource"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// options are the flags of the process.
type options struct {
	command.Process
	address, certs, name, config string
}

func main() { command.Main(newCommand()) }

// newCommand returns the command with the defaults of its flags, which fit the manifests of manifests/apiserver.
func newCommand() *cobra.Command {
	o := options{Process: command.Process{Health: ":8081", Metrics: "0"}}
	cmd := &cobra.Command{
		Use: "apiserver", Annotations: map[string]string{"status": command.Status},
		Short: "Kiln's API server of subresources: start, stop, console", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runAPIServer(cmd.Context(), o) },
	}
	flags := cmd.Flags()
	o.AddAccess(flags)
	o.AddNamespaces(flags)
	o.AddServing(flags)
	o.AddSecureMetrics(flags)
	flags.StringVar(&o.address, "api-bind-address", ":8443", "address of the API")
	flags.StringVar(&o.certs, "cert-dir", "/etc/kiln/certs", "folder of tls.crt and tls.key, which are read again when they change: the certificate that "+
		"this process serves with, and shows to launchers")
	flags.StringVar(&o.name, "certificate-name", "", "DNS name that the certificate must have; empty for the name of Service "+certs.APIServerService)
	flags.StringVar(&o.config, "config", "", command.ConfigUsage)
	return cmd
}

// runAPIServer serves until the context ends. It does not elect a leader: every replica serves.
func runAPIServer(ctx context.Context, o options) error {
	command.Log(o.LogLevel)
	engine, err := o.NewEngine(ctx, o.config, ctrl.Options{})
	if err != nil {
		return err
	}
	certificate := certs.Watch(o.certs)
	api := subresource.New(engine.Live, review.Reviewer{Resolver: engine.Resolver, Configuration: engine.Configuration.Now},
		&subresource.Launchers{Live: engine.Live, Certificate: certificate.Current})
	if err := errors.Join(addServer(engine, api, o, certificate), o.addGuestMetrics(engine, certificate)); err != nil {
		return err
	}
	return engine.Start(ctx)
}

// addGuestMetrics adds the metrics of guests. One replica asks guests for their statistics when the metrics are scraped.
func (o options) addGuestMetrics(engine *command.Engine, certificate *certs.Serving) error {
	if o.Metrics == "0" {
		return nil
	}
	guests := guestmetrics.NewGuests()
	handler, err := guestmetrics.Handler(guests)
	if err != nil {
		return err
	}
	return errors.Join(engine.AddMetricsServerExtraHandler(guestmetrics.Path, handler), command.Publish([]prometheus.Collector{guests.Metric()}),
		engine.Add(&guestmetrics.Leader{
			Guests: guests, Namespace: o.Namespace, Access: engine.GetConfig(), HTTP: engine.GetHTTPClient(), Scheme: engine.GetScheme(),
			Mapper: engine.GetRESTMapper(), Asks: func(cached client.Reader) guestmetrics.Asker {
				return &subresource.Launchers{Live: cached, Certificate: certificate.Current}
			},
		}))
}
