package command

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// Manager returns a manager that is configured by the flags. The options contain the rest, such as the scheme and the name of the Lease. secure configures the
// server of metrics when it starts.
func (p *Process) Manager(o ctrl.Options, secure func(*tls.Config)) (ctrl.Manager, error) {
	access, err := p.readAccess()
	if err != nil {
		return nil, err
	}
	access.QPS, access.Burst = 200, 400 // a boot storm is hundreds of VMs at once; the API server has its own fairness
	o.HealthProbeBindAddress = p.Health
	o.Metrics = server.Options{BindAddress: p.Metrics, TLSOpts: []func(*tls.Config){secure}}
	if p.MetricsSecure {
		// The process signs its own certificate, because replicas have no certificates that a client could verify.
		o.Metrics.SecureServing, o.Metrics.FilterProvider = true, newReaderFilter
	}
	o.LeaderElection, o.LeaderElectionNamespace = p.Elect, cmp.Or(p.Leases, p.Namespace)
	// The next replica need not wait for the Lease to end: nothing runs after the manager has stopped.
	o.LeaderElectionReleaseOnCancel = true
	return ctrl.NewManager(access, o)
}

// readAccess returns the access of the kubeconfig file; without a file, the access of the pod's service account. It does not use clientcmd for the service
// account, because clientcmd warns that this might not work.
func (p *Process) readAccess() (*rest.Config, error) {
	access, err := (*rest.Config)(nil), error(nil)
	if p.Kubeconfig == "" {
		if access, err = rest.InClusterConfig(); err != nil {
			err = fmt.Errorf("without --kubeconfig: %w", err)
		}
	} else {
		access, err = clientcmd.BuildConfigFromFlags("", p.Kubeconfig)
	}
	if err != nil {
		return nil, err
	}
	access.WarningHandler = rest.NoWarnings{} // warnings are for users: this process reads presets, which are deprecated, because users create them
	return access, nil
}

// Publish registers metrics to be served at /metrics.
func Publish(collectors []prometheus.Collector) error {
	var errs []error
	for _, collector := range collectors {
		errs = append(errs, metrics.Registry.Register(collector))
	}
	return errors.Join(errs...)
}

// Probe adds health checks. /healthz succeeds as long as the process runs. /readyz succeeds if all informers have synced and ctx, which ends when the
// process is asked to stop, has not ended. A process may add checks.
func Probe(ctx context.Context, mgr ctrl.Manager) error {
	return errors.Join(mgr.AddHealthzCheck("ping", healthz.Ping), mgr.AddReadyzCheck("informers", func(r *http.Request) error {
		if ctx.Err() != nil {
			return errors.New("stopping")
		}
		brief, cancel := context.WithTimeout(r.Context(), 500*time.Millisecond)
		defer cancel()
		if !mgr.GetCache().WaitForCacheSync(brief) {
			return errors.New("informers have not synced")
		}
		return nil
	}))
}
