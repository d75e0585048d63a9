package main

import (
	"log/slog"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/command"
	"github.com/kilnvm/kiln/internal/enforcement"
	"github.com/kilnvm/kiln/internal/kubevirt/installed"
	"github.com/kilnvm/kiln/internal/kubevirt/virtcontroller"
	"github.com/kilnvm/kiln/pkg/carrier"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/spf13/pflag"
)

// options are the flags. delay is how long the process continues to serve after a signal to stop. refusals is the level at which refused requests are logged.
type options struct {
	command.Process
	address, certs, name, config, guests, runtime, enforcement string
	carriers                                                   []string
	version                                                    config.Version
	hook                                                       virtcontroller.Hook
	clients                                                    clients
	delay                                                      time.Duration
	refusals                                                   slog.Level
}

// addFlags defines the flags.
func (o *options) addFlags(flags *pflag.FlagSet) {
	o.AddAccess(flags)
	o.AddNamespaces(flags)
	o.AddServing(flags)
	o.AddSecureMetrics(flags)
	flags.StringVar(&o.address, "webhook-bind-address", ":9443", "address of the webhooks")
	flags.StringVar(&o.certs, "cert-dir", "/etc/kiln/certs",
		"folder of tls.crt and tls.key, which are read again when they change, and of ca.crt, if there is one: the CAs that API servers trust")
	flags.StringVar(&o.name, "certificate-name", "",
		"DNS name or IP address that API servers call and the certificate must have; empty for the name of Service kiln-webhook")
	flags.StringVar(&o.clients.file, "client-ca-file", "",
		"file of authorities, read at each handshake: requests are answered only with a client certificate of one of them; empty answers everybody")
	flags.StringSliceVar(&o.clients.names, "client-allowed-names", nil,
		"common names of client certificates that are answered, with --client-ca-file; empty for all of its authorities")
	flags.StringVar(&o.config, "config", "", command.ConfigUsage)
	flags.StringVar(&o.guests, "guests", installed.Auto, installed.Usage+". Use the value of the controller")
	flags.StringVar(&o.runtime, "runtime", string(config.RuntimePod), "how guests run, if KubeVirt does not run them: use the value of the controller. With '"+
		string(config.RuntimePod)+"', a VM that no pod starts is refused; with '"+string(config.RuntimeNode)+"', a VM that no launcher on a bare machine starts")
	flags.TextVar(&o.version, "kubevirt-version", config.Version(0), installed.VersionUsage)
	flags.StringVar(&o.hook.Image, "hook-image", "", "image of the launcher, by which guests that KubeVirt runs find their recorded hardware again: "+
		"KubeVirt's gate Sidecar or Plugins must be on; empty for none")
	flags.StringVar(&o.hook.Protocol, "hook-protocol", virtcontroller.HookSidecar, "how KubeVirt asks the container of --hook-image: Sidecar (gate Sidecar), or "+
		"Plugin (gate Plugins), with component beside-kubevirt/plugin")
	flags.StringVar(&o.enforcement, "enforcement", enforcement.Enforce, "what admission does with objects of KubeVirt's kinds that it would refuse: Enforce "+
		"refuses them, Warn admits them with warnings. Label "+v1alpha1.LabelAdmission+" of a namespace overrides it. Without KubeVirt, Enforce holds")
	flags.StringArrayVar(&o.carriers, "carrier", nil, carrier.FlagUsage)
	flags.TextVar(&o.refusals, "log-refusals", o.refusals, "level at which requests are logged that are refused for a mistake of the user: debug or info")
	flags.DurationVar(&o.delay, "shutdown-delay-duration", 0,
		"time to go on serving, not ready, after a signal to stop, until load balancers have noticed")
}
