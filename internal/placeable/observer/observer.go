// Package observer keeps condition Placeable of VMs: it reads what the guest of a VM needs and what the cluster has, and notices when a verdict changes. It
// remembers the need of each VM that does not run, so that a change of a node or a quota costs no reads. The verdict is package internal/placeable's.
package observer

import (
	"context"
	"sync"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/placeable"
	"github.com/kilnvm/kiln/internal/review"
	"github.com/kilnvm/kiln/internal/vmipod/podinput"
	"github.com/kilnvm/kiln/pkg/pod"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Options configure an Observer.
type Options struct {
	// Cache reads nodes, namespaces, quotas, LimitRanges, claims, StorageClasses and NetworkAttachmentDefinitions.
	Cache client.Reader
	// Live makes the dry runs that look for Secrets and ConfigMaps.
	Live client.Client
	// Reviewer makes VMs explicit. It must judge stored objects, without policies.
	Reviewer review.Reviewer
	// Settings are the settings of pods from flags. The configuration has the others.
	Settings pod.Settings
}

// Observer judges VMs.
type Observer struct {
	Options
	mu sync.Mutex
	// guests are the VMs that do not run, with their last verdicts.
	guests map[types.NamespacedName]*guest
	// changed is what has changed since the last comparison.
	changed changes
	// reads bounds how often the needs of VMs are read that already have a verdict.
	reads *rate.Limiter
}

// guest is a VM that was judged.
type guest struct {
	version version
	// settings are the settings of the pod.
	settings pod.Settings
	need     *need
	// stale means that the need must be read again.
	stale   bool
	verdict placeable.Verdict
	// reads bounds how often the need of this VM is read: its owner may edit it all the time, and may name many Secrets.
	reads *rate.Limiter
}

// version identifies the content of a VM that its need was made from.
type version struct {
	uid                  types.UID
	generation           int64
	pins, hardware, arch string
	// identity decides whose a GuestHardware is.
	identity string
}

const (
	// readsPerSecond and readBurst bound the reads of needs: after a start of this process, 3,000 VMs are judged anew within some minutes.
	readsPerSecond, readBurst = 20, 100
	// vmReadsPerSecond and vmReadBurst bound the reads of the need of one VM.
	vmReadsPerSecond, vmReadBurst = 1, 5
	// largestNeed is how many bytes of a need are remembered. A larger need, of which a tenant may write a megabyte, is read each time.
	largestNeed = 32 << 10
	// readTimeout bounds the reads of a verdict: a cache that has not synced keeps its reader waiting.
	readTimeout = 3 * time.Second
)

// New returns an Observer.
func New(options Options) *Observer {
	return &Observer{Options: options, guests: map[types.NamespacedName]*guest{}, reads: rate.NewLimiter(readsPerSecond, readBurst)}
}

// VM is a VM that is judged.
type VM struct {
	Key types.NamespacedName
	// Of is the VM as the cache has it.
	Of *v1.VirtualMachine
	// Full reads the VM with its template.
	Full func(context.Context) (*v1.VirtualMachine, error)
	// Created reports that the pod of its VMI exists.
	Created bool
	// Judged reports that the status of the VM has a verdict on its spec.
	Judged bool
}

// Judge returns the verdict on a VM that does not run. If too many VMs are judged at a time, it returns no verdict and the time after which to ask again; the
// VM keeps its verdict until then. An error means that the VM could not be read.
func (o *Observer) Judge(ctx context.Context, vm VM) (verdict *placeable.Verdict, after time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	at := versionOf(vm.Of)
	settings := podinput.SettingsOf(o.Reviewer.Configuration(), o.Settings)
	found := o.rememberedNeed(vm.Key, at, settings)
	if found == nil {
		if !o.mayReadVM(vm.Key) {
			return nil, time.Second / vmReadsPerSecond, nil
		}
		if allowed := o.reads.Allow(); !allowed && vm.Judged {
			return nil, o.waitForRead(), nil
		}
		full, err := vm.Full(ctx)
		if err != nil {
			return nil, 0, err
		}
		if full.Spec.Template == nil {
			return nil, 0, nil
		}
		var unknown *placeable.Verdict
		if found, unknown = o.readNeed(ctx, full); unknown != nil {
			o.remember(vm.Key, &guest{version: at, settings: settings, stale: true, verdict: *unknown})
			return unknown, 0, nil
		}
	}
	found.Created = vm.Created
	result := o.judgeNeed(ctx, o.newClusters(), vm.Key.Namespace, found)
	kept := found
	if kept.size() > largestNeed {
		kept = nil
	}
	o.remember(vm.Key, &guest{version: at, settings: settings, need: kept, stale: kept == nil, verdict: result})
	return &result, 0, nil
}

// waitForRead returns the time until another VM may be read.
func (o *Observer) waitForRead() time.Duration {
	reservation := o.reads.Reserve()
	defer reservation.Cancel()
	return reservation.Delay() + time.Second
}

// Forget removes a VM that is deleted or runs.
func (o *Observer) Forget(key types.NamespacedName) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.guests, key)
}

// MarkStale has the next verdict on a VM read everything again.
func (o *Observer) MarkStale(key types.NamespacedName) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if known := o.guests[key]; known != nil {
		stale := *known
		stale.stale = true
		o.guests[key] = &stale
	}
}

func (o *Observer) remember(key types.NamespacedName, of *guest) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if before := o.guests[key]; before != nil {
		of.reads = before.reads
	} else {
		of.reads = rate.NewLimiter(vmReadsPerSecond, vmReadBurst)
	}
	o.guests[key] = of
}

// mayReadVM reports whether the need of a VM may be read now.
func (o *Observer) mayReadVM(key types.NamespacedName) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	known := o.guests[key]
	return known == nil || known.reads.Allow()
}

// rememberedNeed returns a copy of the need of a VM, nil if it has to be read.
func (o *Observer) rememberedNeed(key types.NamespacedName, at version, settings pod.Settings) *need {
	o.mu.Lock()
	defer o.mu.Unlock()
	known := o.guests[key]
	if known == nil || known.stale || known.version != at || !equality.Semantic.DeepEqual(known.settings, settings) {
		return nil
	}
	same := *known.need
	return &same
}

// judgeNeed returns the verdict on a need in its namespace.
func (o *Observer) judgeNeed(ctx context.Context, of *clusters, namespace string, n *need) placeable.Verdict {
	cluster, err := of.read(ctx, namespace)
	if err != nil {
		return placeable.Unknown(v1alpha1.ReasonUnreadable, unreadable(err))
	}
	return placeable.Judge(n.Need, cluster)
}

func unreadable(err error) string {
	return "the controller cannot tell whether a node has a place for the guest: " + err.Error() + ". Check the rights and the log of the controller"
}

func versionOf(vm *v1.VirtualMachine) version {
	return version{vm.UID, vm.Generation, vm.Annotations[v1alpha1.AnnotationPins], vm.Annotations[v1alpha1.AnnotationHardware],
		vm.Annotations[v1alpha1.AnnotationArchitecture], vm.Annotations[v1alpha1.AnnotationIdentity]}
}
