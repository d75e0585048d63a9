// Command controller creates VMIs of VMs and pods of VMIs, keeps their hardware records, snapshots and restores VMs, and signs the webhook's certificate.
// Only the replica that holds the Lease works.
package main

import (
	"context"
	"errors"
	"os"
	"slices"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/certs"
	"github.com/kilnvm/kiln/internal/command"
	"github.com/kilnvm/kiln/internal/enforcement"
	"github.com/kilnvm/kiln/internal/frontendprofile"
	"github.com/kilnvm/kiln/internal/guestmetrics"
	"github.com/kilnvm/kiln/internal/guestpolicy"
	"github.com/kilnvm/kiln/internal/guestprofile"
	"github.com/kilnvm/kiln/internal/hostprofile"
	"github.com/kilnvm/kiln/internal/kubevirt/guestcontroller"
	"github.com/kilnvm/kiln/internal/kubevirt/installed"
	"github.com/kilnvm/kiln/internal/lifecycle"
	"github.com/kilnvm/kiln/internal/nodecpu/observer"
	"github.com/kilnvm/kiln/internal/policyreport"
	"github.com/kilnvm/kiln/internal/review"
	"github.com/kilnvm/kiln/internal/revision"
	"github.com/kilnvm/kiln/internal/snapshots"
	"github.com/kilnvm/kiln/internal/snapshots/quiesce"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	ctrl "sigs.k8s.io/controller-runtime"
)

// options are the flags of the process, with the built-in rotation of the webhook's certificate. collect is the grace period of the collector.
type options struct {
	command.Process
	makers       installed.Makers
	namespaces   enforcement.Namespaces
	enforcement  string
	guests       guests
	config       string
	rotate       bool
	certificates certs.Options
	// apiserver is the folder of the certificate of the API server of subresources; empty to sign none.
	apiserver string
	collect   time.Duration
}

func main() { command.Main(newCommand()) }

// newCommand returns the command with the defaults of its flags. It elects a leader, and serves metrics only if an address is given. The built-in rotation is
// off by default, because cert-manager may sign. The rotation writes a Secret and the webhook configurations, for which manifests/overlays/rotation has the
// rights.
func newCommand() *cobra.Command {
	o := options{Process: command.Process{Health: ":8081", Metrics: "0", Elect: true}}
	cmd := &cobra.Command{
		Use: "controller", Annotations: map[string]string{"status": command.Status},
		Short: "Kiln's controllers of VMs, pods of guests, ControllerRevisions and profiles", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runController(cmd.Context(), o) },
	}
	flags := cmd.Flags()
	o.AddAccess(flags)
	o.AddNamespaces(flags)
	o.AddServing(flags)
	o.AddSecureMetrics(flags)
	o.AddElection(flags)
	flags.StringVar(&o.config, "config", "", command.ConfigUsage)
	flags.StringVar(&o.makers.Guests, "guests", installed.Auto, installed.Usage+". Beside KubeVirt, this process pins VMs and collects revisions")
	flags.StringVar(&o.namespaces.Selection, "admission-namespaces", enforcement.OptOut, "in which namespaces this process writes VMs that KubeVirt runs: "+
		"OptOut means all but those with label "+v1alpha1.LabelAdmission+"=disabled, OptIn those with its values enabled and warn. The selectors of the "+
		"webhooks must be the same. Without KubeVirt it has no effect")
	flags.StringVar(&o.enforcement, "enforcement", enforcement.Enforce, "the value of the webhook's flag. Beside KubeVirt, VMs wait for a webhook that does not "+
		"answer only in namespaces in which a GuestPolicy may refuse them")
	o.guests.addFlags(flags)
	flags.BoolVar(&o.rotate, "rotate-certificates", false,
		"sign the webhook's certificate, in Secret "+certs.Secret+"; without it another program must, such as cert-manager")
	flags.StringVar(&o.certificates.Dir, "cert-dir", "/etc/kiln/certs", "folder at which that Secret is mounted")
	flags.StringSliceVar(&o.certificates.Names, "certificate-dns-names", nil, "additional DNS names of the certificates that this process signs")
	flags.StringVar(&o.apiserver, "apiserver-cert-dir", "", "folder at which Secret "+certs.APIServerSecret+" is mounted: with --rotate-certificates, the "+
		"certificate of Kiln's API server of subresources is signed as well. Empty where that is not installed")
	flags.DurationVar(&o.collect, "collect-after", time.Hour, "time without use after which a ControllerRevision is removed, at least 10m")
	return cmd
}

// runController adds the controllers, the collector of revisions and, on request, the rotation to a manager, and runs it until the context ends. It waits for
// the Lease, because two controllers would create the VMIs of one VM in a race.
func runController(ctx context.Context, o options) error {
	settings, err := o.guests.podSettings()
	if err := errors.Join(err, o.namespaces.Validate(), enforcement.CheckValue(o.enforcement)); err != nil {
		return err
	}
	command.Log(o.LogLevel)
	// The name of the Lease is also in the Role of manifests/rbac/controller.yaml.
	engine, err := o.NewEngine(ctx, o.config, ctrl.Options{LeaderElectionID: "kiln-controllers"})
	if err != nil {
		return err
	}
	o.makers.Live, o.makers.Namespace = engine.Live, o.KubeVirtNamespace
	kubevirt, err := o.makers.Decide(ctx)
	if err != nil {
		return err
	}
	engine.Configuration.Runtime = config.Runtime(o.guests.runtime)
	engine.Configuration.FollowKubeVirt(ctx, func(context.Context) (bool, error) { return kubevirt, nil }) // o.makers ends the process if this changes
	machines := o.newVMController(engine)
	policies, err := guestpolicy.NewSet(engine.GetConfig(), engine.GetHTTPClient(), engine.GetRESTMapper(), ctrl.Log.WithName("policies"))
	if err != nil {
		return err
	}
	stored := review.Reviewer{Resolver: engine.Resolver, Configuration: engine.Configuration.Now, Policies: policies.Now,
		Params: policies.Params.Source, Exceptions: policies.Exceptions.Of, Stored: true}
	if kubevirt {
		policies.Changed = o.addKubeVirt(machines, stored)
	} else {
		machines.Placement = o.guests.newPlacement(engine, settings)
	}
	auditor := &policyreport.Auditor{Client: engine.GetClient(), Live: engine.Live, Reviewer: stored, Namespaces: machines.Namespaces, Now: time.Now,
		Log: ctrl.Log.WithName("policyreport")}
	if err := errors.Join(machines.Register(engine), engine.Add(&o.makers), policies.Follow(ctx, engine.GetCache()), auditor.Register(engine)); err != nil {
		return err
	}
	if !kubevirt {
		if err := errors.Join(o.guests.registerPods(engine, o.Namespace, settings), o.addSnapshots(engine)); err != nil {
			return err
		}
	}
	if err := o.addGuestMetrics(engine, kubevirt); err != nil {
		return err
	}
	counts, err := machines.Counts(engine)
	if err != nil {
		return err
	}
	published := slices.Concat(snapshots.Metrics(), guestcontroller.Metrics(), policyreport.Metrics(), observer.Metrics(), []prometheus.Collector{counts})
	if err := command.Publish(published); err != nil {
		return err
	}
	conditions := engine.GetClient()
	policyController := &guestpolicy.Controller{Client: conditions}
	if kubevirt {
		policyController.Refusing = enforcement.RefusingNamespaces(o.enforcement)
	}
	if err := errors.Join((&hostprofile.Controller{Client: conditions, Pods: o.guests.runtime == runtimePod}).Register(engine),
		(&frontendprofile.Controller{Client: conditions}).Register(engine),
		(&observer.Controller{Client: conditions, Cached: engine.GetCache(), Configuration: engine.Configuration.Now, Now: time.Now}).Register(engine),
		policyController.Register(engine),
		(&guestpolicy.ExceptionController{Client: conditions, Events: engine.GetEventRecorder("kiln")}).Register(engine),
		(&guestprofile.Controller{Client: conditions, Cached: engine.GetCache(), Configuration: engine.Configuration.Now,
			Now: time.Now}).Register(engine)); err != nil {
		return err
	}
	if err := engine.Add(&revision.Collector{Cached: engine.GetCache(), Live: engine.Live, Grace: o.collect, Now: time.Now}); err != nil {
		return err
	}
	self, err := os.Hostname() // a pod's name
	if err != nil {
		return err
	}
	remount := certs.Remount{Live: engine.Live, Namespace: o.Namespace, Self: self, File: o.guests.authorities, Now: time.Now}
	if err := remount.Register(engine); err != nil {
		return err
	}
	if o.rotate { // only the leader signs: two signers would replace each other's CA
		if err := o.addRotations(engine); err != nil {
			return err
		}
	}
	return engine.Start(ctx)
}

// addGuestMetrics adds KubeVirt's metrics about VMs and VMIs. Beside KubeVirt the path has no metrics, because KubeVirt's own controller serves them.
func (o options) addGuestMetrics(engine *command.Engine, kubevirt bool) error {
	if o.Metrics == "0" {
		return nil
	}
	machines := guestmetrics.NewMachines(engine.GetCache())
	handler, err := guestmetrics.Handler(machines)
	if err == nil {
		err = engine.AddMetricsServerExtraHandler(guestmetrics.Path, handler)
	}
	if err != nil || kubevirt {
		return err
	}
	return engine.Add(machines)
}

// newVMController returns the controller of VMs. Live reads the objects that must not be stale, such as the hardware record of a VM, from the API server.
func (o options) newVMController(engine *command.Engine) *lifecycle.Controller {
	return &lifecycle.Controller{
		Client: engine.GetClient(), Live: engine.Live, Resolver: engine.Resolver, Configuration: engine.Configuration.Now,
		Events: engine.GetEventRecorder("kiln"), Now: time.Now,
		Finalizers:       o.guests.vmiFinalizers(),
		MakesDataVolumes: o.guests.runtime == runtimePod,
	}
}

// addKubeVirt makes the controller of VMs leave their VMIs to KubeVirt, and judge the VMs that admission has not judged. The returned function has them judged
// again, because the policies have changed.
func (o options) addKubeVirt(machines *lifecycle.Controller, stored review.Reviewer) (policiesChanged func()) {
	machines.Namespaces = &enforcement.Namespaces{Selection: o.namespaces.Selection, Kiln: o.Namespace, KubeVirt: o.KubeVirtNamespace}
	added := &guestcontroller.Controller{Client: machines.Client, Live: machines.Live, Events: machines.Events, Now: machines.Now,
		Namespaces: machines.Namespaces, Reviewer: stored}
	machines.KubeVirt = added
	return added.PoliciesChanged
}

// addSnapshots adds the reconcilers of snapshots, restores and clones. Beside KubeVirt, KubeVirt has its own reconcilers of these kinds. Guests are frozen only
// if the API server of subresources is installed.
func (o options) addSnapshots(engine *command.Engine) error {
	options := snapshots.Options{Cache: engine.GetClient(), Live: engine.Live, Configuration: engine.Configuration.Now,
		Events: engine.GetEventRecorder("kiln"), Now: time.Now}
	if o.guests.authorities != "" {
		agent, err := quiesce.NewSubresourceAgent(engine.GetConfig(), engine.GetHTTPClient())
		if err != nil {
			return err
		}
		options.Agent = agent
	}
	return snapshots.Register(engine, options)
}

// addRotations adds the rotations of certificates.
func (o options) addRotations(engine *command.Engine) error {
	o.certificates.Namespace = o.Namespace
	if err := certs.Rotate(engine, o.certificates); err != nil || o.apiserver == "" {
		return err
	}
	o.certificates.Dir = o.apiserver
	return certs.RotateAPIServer(engine, o.certificates)
}
