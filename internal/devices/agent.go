package devices

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// lookPeriod is the time between two checks of devices and sockets, which cost a few calls of stat. inotify would need the same checks, because it misses
	// what happens before a watch begins.
	lookPeriod = time.Second
	// reportPeriod is the time after which a Node is read again, because its label may have been removed.
	reportPeriod = 2 * time.Minute
)

// Agent is 'launcher devices': it runs a plugin for each device, installs files on the node, and writes the Node.
type Agent struct {
	Node    string
	Cluster client.Client
	Folders Folders
	// Emulator is the path of the QEMU program whose machine types are reported. If it is empty, none are.
	Emulator string
	// Count is how many guests may use a device at a time.
	Count int
	Log   logr.Logger

	registered atomic.Int32
	reported   atomic.Bool
	// machineTypes are the types of Emulator, which is a part of this image and does not change. Only reportOnce uses them.
	machineTypes []string
}

// Start runs until the context ends. It implements manager.Runnable.
func (a *Agent) Start(ctx context.Context) error {
	if err := a.Folders.writeCDI(); err != nil { // before kubelet asks for a device
		a.Log.Error(err, "the description of devices is not written", "folder", a.Folders.CDI)
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, d := range Served {
		p := &plugin{device: d, folders: a.Folders, count: a.Count, period: lookPeriod, log: a.Log}
		group.Go(func() error {
			first := true
			p.serveForever(ctx, func() {
				if first {
					a.registered.Add(1)
				}
				first = false
			})
			return nil
		})
	}
	group.Go(func() error { a.reportForever(ctx); return nil })
	return group.Wait()
}

// Ready fails until each device has been registered and the Node has been written.
func (a *Agent) Ready(*http.Request) error {
	if int(a.registered.Load()) < len(Served) {
		return errors.New("kubelet has not registered all devices")
	}
	if !a.reported.Load() {
		return errors.New("the Node has not been written")
	}
	return nil
}

// reportForever writes the Node at once, again soon after a device was added or removed, and after each reportPeriod. It tries again after a failure.
func (a *Agent) reportForever(ctx context.Context) {
	for ctx.Err() == nil {
		before := a.allFaults()
		period := wait.Jitter(reportPeriod, 0.2)
		if err := a.reportOnce(ctx); err != nil && ctx.Err() == nil {
			a.Log.Error(err, "the Node is not written", "node", a.Node)
			period = 10 * lookPeriod
		}
		for until := time.Now().Add(period); time.Now().Before(until) && a.allFaults() == before; {
			select {
			case <-ctx.Done():
				return
			case <-time.After(lookPeriod):
			}
		}
	}
}

// allFaults returns the faults of all devices as one text, for comparisons.
func (a *Agent) allFaults() (all string) {
	for _, d := range Served {
		all += a.Folders.deviceFault(d) + "\n"
	}
	return all
}

// reportOnce installs files on the machine, checks the machine, and writes the result into the Node.
func (a *Agent) reportOnce(ctx context.Context) error {
	profile, description := a.Folders.writeProfile(), a.Folders.writeCDI() // also while the cluster does not answer
	node := &corev1.Node{}
	if err := a.Cluster.Get(ctx, client.ObjectKey{Name: a.Node}, node); err != nil {
		return err
	}
	var found findings
	checkVersions(node.Status.NodeInfo, &found)
	a.Folders.checkDevices(description, &found)
	passt := a.Folders.checkPasst(profile, &found)
	a.Folders.checkOpenFiles(&found)
	a.Folders.checkOwnership(node.Status.NodeInfo, &found)
	if a.Emulator != "" && len(a.machineTypes) == 0 {
		var err error
		if a.machineTypes, err = listMachineTypes(ctx, a.Emulator); err != nil {
			found.addUnknown("the machine types of QEMU are unknown: %v", err)
		}
	}
	if failure := node.Annotations[v1alpha1.AnnotationCPUFailure]; failure != "" {
		found.addUnknown("the CPU of guests is unknown: %s", condition.OneLine(failure))
	}
	kvm := a.Folders.deviceFault(deviceKVM) == ""
	if err := (reporter{cluster: a.Cluster, now: time.Now}).writeNode(ctx, node, report{passt, kvm, a.machineTypes, found}); err != nil {
		return err
	}
	a.reported.Store(true)
	return nil
}
