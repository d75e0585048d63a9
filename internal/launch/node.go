package launch

import (
	"context"
	"fmt"
	"time"

	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/pipeline"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// Node runs the VMIs of one machine. It claims an unassigned VMI by a status update with its resource version, so that of
// two nodes one loses, and writes only VMIs that it claimed.
type Node struct {
	client.Client
	// Live reads past the cache.
	Live    client.Reader
	Name    string
	Labels  map[string]string
	Libvirt *Libvirt
	Host    *Host
	// Configuration is the cluster's: it says what new guests see that no field of the API governs.
	Configuration *resolve.Configuration
	// Lease is that of the name; nil for a node that is alone by other means.
	Lease *Lease
}

// pollInterval is how often an active domain is looked at.
const pollInterval = 2 * time.Second

// SetupWithManager lets the manager call the node for each VMI.
func (n *Node) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).For(&v1.VirtualMachineInstance{}).Named("launcher").Complete(n)
}

// Reconcile moves one VMI a step further.
func (n *Node) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	vmi := &v1.VirtualMachineInstance{}
	if err := n.Get(ctx, request.NamespacedName, vmi); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !n.acts() {
		return ctrl.Result{RequeueAfter: time.Second}, nil
	}
	if !n.Configuration.Synced() {
		// What the first boot freezes must not be the defaults of a moment.
		return ctrl.Result{RequeueAfter: time.Second}, nil
	}
	if n.Libvirt == nil {
		return ctrl.Result{}, n.renderOnly(ctx, vmi)
	}
	switch {
	case vmi.Status.NodeName == "" && vmi.DeletionTimestamp.IsZero() && n.fits(vmi):
		return ctrl.Result{}, n.claim(ctx, vmi)
	case vmi.Status.NodeName != n.Name:
		return ctrl.Result{}, nil
	case !vmi.DeletionTimestamp.IsZero():
		return n.stop(ctx, vmi)
	case controllerutil.AddFinalizer(vmi, v1.VirtualMachineInstanceFinalizer):
		return ctrl.Result{}, n.Update(ctx, vmi) // its answer comes back as the next event
	case vmi.Status.Phase == v1.Scheduled:
		return n.start(ctx, vmi)
	case vmi.Status.Phase == v1.Running:
		return n.watch(ctx, vmi)
	}
	return ctrl.Result{}, nil
}

// renderOnly leaves the documents of a VMI that this machine could run, for a look at them.
func (n *Node) renderOnly(ctx context.Context, vmi *v1.VirtualMachineInstance) error {
	if !n.fits(vmi) {
		return nil
	}
	if err := n.writeDocument(ctx, vmi); err != nil {
		ctrl.LoggerFrom(ctx).Info("cannot be rendered", "reason", err.Error())
		return nil
	}
	ctrl.LoggerFrom(ctx).Info("rendered, not started: libvirt is not reachable", "folder", n.Host.dir(vmi))
	return nil
}

// fits tells whether this machine may run the VMI.
func (n *Node) fits(vmi *v1.VirtualMachineInstance) bool {
	if vmi.Status.Phase != v1.VmPhaseUnset && vmi.Status.Phase != v1.Pending {
		return false
	}
	if n.Host.Capabilities.Emulators[vmi.Spec.Architecture] == "" {
		return false
	}
	return labels.SelectorFromSet(vmi.Spec.NodeSelector).Matches(labels.Set(n.Labels))
}

func (n *Node) claim(ctx context.Context, vmi *v1.VirtualMachineInstance) error {
	vmi.Status.NodeName = n.Name
	setPhase(vmi, v1.Scheduled)
	return client.IgnoreNotFound(ignoreConflict(n.Status().Update(ctx, vmi)))
}

// start binds, renders, records the frontend, and only then defines and starts the domain: a guest whose hardware is not
// recorded must never have run.
func (n *Node) start(ctx context.Context, vmi *v1.VirtualMachineInstance) (ctrl.Result, error) {
	frozen, err := abi.Parse(vmi.Annotations[pipeline.AnnotationFrontend])
	if err != nil {
		return n.refuse(ctx, vmi, reasonNotRenderable, fmt.Sprintf("annotation '%s': %v", pipeline.AnnotationFrontend, err))
	}
	bindings, errs := n.Host.Bind(vmi)
	if len(errs) > 0 {
		return n.refuse(ctx, vmi, reasonNotBindable, condition.Mistakes(errs))
	}
	profiles, err := profiles(ctx, n.Client)
	if err != nil {
		return ctrl.Result{}, err
	}
	if bindings.CPUs, err = n.ownCPUs(vmi, profiles); err != nil {
		return ctrl.Result{}, err
	}
	rendered, errs := pipeline.Render(pipeline.Machine{
		VMI: vmi, Defaults: n.Configuration.Now().Frontend, Frozen: frozen, Host: n.Host.Capabilities, Bindings: bindings, Profiles: profiles})
	if len(errs) > 0 {
		return n.refuse(ctx, vmi, reasonOf(errs), condition.Mistakes(errs))
	}
	changed, err := recordFrontend(vmi, rendered.Record)
	if err != nil {
		return ctrl.Result{}, err
	}
	if changed {
		return n.keepRecord(ctx, vmi)
	}
	if wanted, err := n.wanted(ctx, vmi); err != nil || !wanted {
		return ctrl.Result{}, err
	}
	values, err := n.Host.secrets(vmi, rendered.Documents.Secrets)
	if err != nil {
		return n.refuse(ctx, vmi, reasonNotBindable, err.Error())
	}
	if err := n.Host.notePolicy(vmi, profiles); err != nil {
		return ctrl.Result{}, err
	}
	if err := n.Libvirt.Run(rendered.Documents, values); err != nil {
		return n.refuse(ctx, vmi, reasonStartFailed, err.Error())
	}
	setPhase(vmi, v1.Running)
	setSynchronized(vmi, corev1.ConditionTrue, reasonStarted, "")
	setReady(vmi, corev1.ConditionTrue, reasonStarted)
	vmi.Status.Machine = &v1.Machine{Type: rendered.Documents.Domain.OS.Type.Machine}
	return ctrl.Result{RequeueAfter: pollInterval}, n.Status().Update(ctx, vmi)
}

// wanted asks the API server itself whether the VMI is still to run here: the cache may lag behind its deletion, and a guest
// that is started then would boot only to be shut down, or never be shut down if its VMI is gone.
func (n *Node) wanted(ctx context.Context, vmi *v1.VirtualMachineInstance) (bool, error) {
	if !n.acts() {
		return false, errLeaseLost
	}
	now := &v1.VirtualMachineInstance{}
	if err := n.Live.Get(ctx, client.ObjectKeyFromObject(vmi), now); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return now.UID == vmi.UID && now.DeletionTimestamp.IsZero() && now.Status.NodeName == n.Name, nil
}

// retryInterval is when a VMI that this machine could not start is tried again: an administrator may have put the file there.
const retryInterval = 15 * time.Second

// refuse tells the user why the VMI does not run. It stays claimed and is tried again.
func (n *Node) refuse(ctx context.Context, vmi *v1.VirtualMachineInstance, reason, message string) (ctrl.Result, error) {
	setSynchronized(vmi, corev1.ConditionFalse, reason, message)
	setReady(vmi, corev1.ConditionFalse, reason)
	return ctrl.Result{RequeueAfter: retryInterval}, n.Status().Update(ctx, vmi)
}

// watch ends the VMI when its guest has ended.
func (n *Node) watch(ctx context.Context, vmi *v1.VirtualMachineInstance) (ctrl.Result, error) {
	state, err := n.Libvirt.State(domainName(vmi))
	if err != nil {
		return ctrl.Result{}, err
	}
	switch state {
	case Active:
		changed, err := n.comparePolicy(ctx, vmi)
		if err == nil && changed {
			err = ignoreConflict(n.Status().Update(ctx, vmi))
		}
		return ctrl.Result{RequeueAfter: pollInterval}, err
	case Stopped:
		setPhase(vmi, v1.Succeeded)
	default:
		setPhase(vmi, v1.Failed)
	}
	setReady(vmi, corev1.ConditionFalse, "GuestNotRunning")
	return ctrl.Result{}, n.Status().Update(ctx, vmi)
}

// stop asks the guest to power off, waits for its grace period, and then removes the domain and all that was made for it.
func (n *Node) stop(ctx context.Context, vmi *v1.VirtualMachineInstance) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(vmi, v1.VirtualMachineInstanceFinalizer) {
		return ctrl.Result{}, nil
	}
	name := domainName(vmi)
	state, err := n.Libvirt.State(name)
	if err != nil {
		return ctrl.Result{}, err
	}
	if state == Active && time.Now().Before(deadline(vmi)) {
		return ctrl.Result{RequeueAfter: time.Second}, n.Libvirt.Shutdown(name)
	}
	if err := n.Libvirt.Remove(name); err != nil {
		return ctrl.Result{}, err
	}
	if err := n.Host.Forget(vmi); err != nil {
		return ctrl.Result{}, err
	}
	controllerutil.RemoveFinalizer(vmi, v1.VirtualMachineInstanceFinalizer)
	return ctrl.Result{}, client.IgnoreNotFound(n.Update(ctx, vmi))
}

// defaultGracePeriod is how long a guest that names no period may take to power off.
const defaultGracePeriod = 30 * time.Second

func deadline(vmi *v1.VirtualMachineInstance) time.Time {
	grace := defaultGracePeriod
	if seconds := vmi.Spec.TerminationGracePeriodSeconds; seconds != nil {
		grace = time.Duration(*seconds) * time.Second
	}
	return vmi.DeletionTimestamp.Add(grace)
}

// domainName is what stage 2 names the domain of a VMI.
func domainName(vmi *v1.VirtualMachineInstance) string { return vmi.Namespace + "_" + vmi.Name }
