package command

import (
	"cmp"
	"log/slog"
	"os"

	"github.com/kilnvm/kiln/pkg/config"
	"github.com/spf13/pflag"
)

// Process contains the flags that processes have in common. The value that a field has when its flag is added is the flag's default.
type Process struct {
	// Kubeconfig is the name of a kubeconfig file; empty for the service account of the pod.
	Kubeconfig string
	LogLevel   slog.Level
	// Namespace is the namespace that Kiln is installed in, and KubeVirtNamespace the namespace of KubeVirt. Only accounts of these two namespaces may
	// change what only controllers may change.
	Namespace, KubeVirtNamespace string
	// Metrics is the address of /metrics, and Health the address of /healthz and /readyz. "0" disables them.
	Metrics, Health string
	// MetricsSecure serves metrics over TLS, and only to accounts of the cluster that may get /metrics.
	MetricsSecure bool
	// Elect makes the process start its controllers only when it holds a Lease. The Lease is in the namespace Leases, or in Namespace if Leases is empty.
	Elect  bool
	Leases string
}

// AddAccess adds --kubeconfig and --log-level.
func (p *Process) AddAccess(flags *pflag.FlagSet) {
	flags.StringVar(&p.Kubeconfig, "kubeconfig", os.Getenv("KUBECONFIG"), "kubeconfig file; empty for the service account of the pod")
	p.AddLog(flags)
}

// AddLog adds --log-level.
func (p *Process) AddLog(flags *pflag.FlagSet) {
	flags.TextVar(&p.LogLevel, "log-level", p.LogLevel, "lowest level that is logged: debug, info, warn or error")
}

// AddNamespaces adds --namespace and --kubevirt-namespace. The pod's environment sets both: manifests/namespace changes them there.
func (p *Process) AddNamespaces(flags *pflag.FlagSet) {
	flags.StringVar(&p.Namespace, "namespace", os.Getenv("POD_NAMESPACE"), "namespace that Kiln is installed in; POD_NAMESPACE if that is set")
	flags.StringVar(&p.KubeVirtNamespace, "kubevirt-namespace", cmp.Or(os.Getenv("KUBEVIRT_NAMESPACE"), config.DefaultKubeVirtNamespace),
		"namespace of KubeVirt's accounts, which may manage VMIs too; KUBEVIRT_NAMESPACE if that is set")
}

// AddServing adds --health-probe-bind-address and --metrics-bind-address.
func (p *Process) AddServing(flags *pflag.FlagSet) {
	flags.StringVar(&p.Health, "health-probe-bind-address", p.Health, "address of /healthz and /readyz; 0 serves none")
	flags.StringVar(&p.Metrics, "metrics-bind-address", p.Metrics, "address of /metrics; 0 serves none")
}

// AddSecureMetrics adds --metrics-secure. The process needs the permissions of manifests/metrics.
func (p *Process) AddSecureMetrics(flags *pflag.FlagSet) {
	flags.BoolVar(&p.MetricsSecure, "metrics-secure", p.MetricsSecure,
		"serve metrics over TLS to accounts that may get their path, by their tokens; manifests/metrics has the rights that this needs")
}

// AddElection adds --leader-elect and --leader-elect-resource-namespace.
func (p *Process) AddElection(flags *pflag.FlagSet) {
	flags.BoolVar(&p.Elect, "leader-elect", p.Elect, "run controllers only while this process holds the Lease of all replicas")
	flags.StringVar(&p.Leases, "leader-elect-resource-namespace", p.Leases, "namespace of that Lease; empty for --namespace")
}

// ConfigUsage is the help of --config of the webhook, the controller and the launcher.
const ConfigUsage = "file with a KubeVirt object or its spec.configuration; empty for the KubeVirt object of the cluster, or the defaults " +
	"if it does not exist"
