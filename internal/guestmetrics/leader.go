package guestmetrics

import (
	"context"
	"errors"
	"net/http"
	"os"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// LeaseName is the name of the Lease of the replica that asks guests. manifests/apiserver has the right to write it.
const LeaseName = "kiln-guest-statistics"

const (
	// leaseDuration is the time after which another replica asks if the leader was killed.
	leaseDuration = 30 * time.Second
	renewDeadline = 20 * time.Second
	retryPeriod   = 5 * time.Second
)

// Leader makes one replica at a time ask guests. It is a manager.Runnable. It does not use the election of a manager, because a process that loses that
// election ends, and with it all consoles.
type Leader struct {
	Guests    *Guests
	Namespace string
	Access    *rest.Config
	HTTP      *http.Client
	Scheme    *runtime.Scheme
	Mapper    meta.RESTMapper
	// Asks returns an Asker that finds launchers with a reader.
	Asks func(client.Reader) Asker
}

// NeedLeaderElection returns false: see Leader.
func (*Leader) NeedLeaderElection() bool { return false }

// Start takes part in the election until the context ends.
func (l *Leader) Start(ctx context.Context) error {
	log := ctrl.Log.WithName("guests")
	leases, err := coordinationv1.NewForConfigAndClient(l.Access, l.HTTP)
	if err != nil {
		return err
	}
	hostname, _ := os.Hostname()
	lock := &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: LeaseName}, Client: leases,
		LockConfig: resourcelock.ResourceLockConfig{Identity: hostname + "_" + string(uuid.NewUUID())},
	}
	for ctx.Err() == nil {
		done := make(chan struct{})
		elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock: lock, LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod, ReleaseOnCancel: true,
			Callbacks: leaderelection.LeaderCallbacks{OnStoppedLeading: func() {}, OnStartedLeading: func(leads context.Context) {
				defer close(done)
				for leads.Err() == nil {
					if err := l.askWhileLeading(leads); leads.Err() == nil {
						log.Error(err, "guests are not asked for their statistics")
						time.Sleep(retryPeriod)
					}
				}
			}},
		})
		if err != nil {
			return err
		}
		elector.Run(ctx)
		if ctx.Err() == nil { // the Lease was held, and lost
			<-done
		}
	}
	return nil
}

// askWhileLeading runs a cache, and lets rounds read it, until the context ends. A replica that does not lead needs no cache, and readiness must not wait for
// it.
func (l *Leader) askWhileLeading(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cached, err := cache.New(l.Access, cache.Options{
		HTTPClient: l.HTTP, Scheme: l.Scheme, Mapper: l.Mapper, ReaderFailOnMissingInformer: true,
		ByObject: map[client.Object]cache.ByObject{
			&v1.VirtualMachineInstance{}: {Transform: slimVMI},
			&v1alpha1.GuestPod{}:         {Transform: slimGuestPod},
			&corev1.Pod{}:                {Transform: slimPod, Label: labels.SelectorFromSet(labels.Set{v1.AppLabel: "virt-launcher"})},
		},
	})
	if err != nil {
		return err
	}
	for _, object := range []client.Object{&v1.VirtualMachineInstance{}, &v1alpha1.GuestPod{}, &corev1.Pod{}} {
		if _, err := cached.GetInformer(ctx, object, cache.BlockUntilSynced(false)); err != nil {
			return err
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- cached.Start(ctx) }()
	if cached.WaitForCacheSync(ctx) {
		l.Guests.setSource(&source{cached, l.Asks(cached)})
	}
	select {
	case err = <-ended:
		err = errors.Join(err, errors.New("the cache has ended"))
	case <-ctx.Done():
		err = <-ended
	}
	l.Guests.setSource(nil)
	return err
}

func slimMeta(of *metav1.ObjectMeta) {
	*of = metav1.ObjectMeta{Namespace: of.Namespace, Name: of.Name, UID: of.UID, ResourceVersion: of.ResourceVersion}
}

// slimVMI drops the fields of a VMI that a round does not read. It keeps the fields that bound an answer: the number of vCPUs, and the names of disks and
// interfaces.
func slimVMI(object any) (any, error) {
	vmi, is := object.(*v1.VirtualMachineInstance)
	if !is {
		return object, nil
	}
	slimMeta(&vmi.ObjectMeta)
	var spec v1.VirtualMachineInstanceSpec
	if cpu := vmi.Spec.Domain.CPU; cpu != nil {
		spec.Domain.CPU = &v1.CPU{Sockets: cpu.Sockets, MaxSockets: cpu.MaxSockets, Cores: cpu.Cores, Threads: cpu.Threads}
	}
	for i := range vmi.Spec.Domain.Devices.Interfaces {
		spec.Domain.Devices.Interfaces = append(spec.Domain.Devices.Interfaces, v1.Interface{Name: vmi.Spec.Domain.Devices.Interfaces[i].Name})
	}
	for i := range vmi.Spec.Domain.Devices.Disks {
		spec.Domain.Devices.Disks = append(spec.Domain.Devices.Disks, v1.Disk{Name: vmi.Spec.Domain.Devices.Disks[i].Name})
	}
	vmi.Spec = spec
	vmi.Status = v1.VirtualMachineInstanceStatus{Phase: vmi.Status.Phase, NodeName: vmi.Status.NodeName}
	return vmi, nil
}

// slimGuestPod keeps the UIDs of the VMI and the pod, and the certificate of the launcher.
func slimGuestPod(object any) (any, error) {
	of, is := object.(*v1alpha1.GuestPod)
	if !is {
		return object, nil
	}
	slimMeta(&of.ObjectMeta)
	of.Spec = v1alpha1.GuestPodSpec{VMIUID: of.Spec.VMIUID, PodUID: of.Spec.PodUID}
	of.Status = v1alpha1.GuestPodStatus{ServerCertificate: of.Status.ServerCertificate}
	return of, nil
}

// slimPod keeps the phase and the IP address of a pod.
func slimPod(object any) (any, error) {
	pod, is := object.(*corev1.Pod)
	if !is {
		return object, nil
	}
	slimMeta(&pod.ObjectMeta)
	pod.Spec, pod.Status = corev1.PodSpec{}, corev1.PodStatus{Phase: pod.Status.Phase, PodIP: pod.Status.PodIP}
	return pod, nil
}
