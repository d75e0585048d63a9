// Package reporter is 'launcher cpu', which writes into the labels of its Node which CPUs guests of Kiln's pods have there. It runs as the pods of guests do:
// as their account, with libvirt and QEMU of their image, and with /dev/kvm if they have it. So it finds what they find.
package reporter

import (
	"context"
	"maps"
	"time"

	"github.com/go-logr/logr"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/hypervisor"
	"github.com/kilnvm/kiln/internal/nodecpu"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// askLimit bounds one start of libvirt with its answer. libvirt probes QEMU, which takes up to a minute on a busy machine.
	askLimit = 5 * time.Minute
	// reportPeriod is the time after which the Node is read again, because somebody may have removed labels. After a failure libvirt is asked again then.
	reportPeriod = 2 * time.Minute
	// retryPeriod is the time after which a write is tried again.
	retryPeriod = 10 * time.Second
	// mostModels bounds the labels of models. QEMU 10.0 has about 160 models of amd64. Features are bounded by pkg/record.
	mostModels = 512
)

// Reporter is 'launcher cpu'.
type Reporter struct {
	Node    string
	Cluster client.Client
	// Ask starts libvirt, and returns what it offers to guests.
	Ask func(context.Context) (hypervisor.OfferedCPUs, error)
	Log logr.Logger

	// labels are what the answer of libvirt says; nil before the first answer. The answer depends on the image, the kernel and the microcode of the machine: with
	// another one of them there is another process.
	labels map[string]string
	// failure is the reason why there is no answer.
	failure string
}

// Run reports until the context ends.
func (r *Reporter) Run(ctx context.Context) {
	for ctx.Err() == nil {
		if r.labels == nil {
			r.askLibvirt(ctx)
		}
		period := wait.Jitter(reportPeriod, 0.2)
		if err := r.writeNode(ctx); err != nil && ctx.Err() == nil {
			r.Log.Error(err, "the Node is not written", "node", r.Node)
			period = retryPeriod
		}
		select {
		case <-ctx.Done():
		case <-time.After(period):
		}
	}
}

// askLibvirt sets labels or failure.
func (r *Reporter) askLibvirt(ctx context.Context) {
	within, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	offered, err := r.Ask(within)
	if err != nil {
		r.failure = condition.Message(condition.OneLine(err.Error()))
		r.Log.Error(err, "libvirt does not say which CPUs it offers")
		return
	}
	offer := offerOf(offered)
	r.failure, r.labels = "", nodecpu.FromKiln.Labels(offer)
	r.Log.Info("libvirt offers CPUs to guests", "features", len(offer.Features), "models", len(offer.Models), "vendor", offer.Vendor, "emulated", offer.Emulated)
}

// offerOf returns what labels can say of an answer. Without host-model, as on arm64, they only name models.
func offerOf(offered hypervisor.OfferedCPUs) nodecpu.Offer {
	o := nodecpu.Offer{Features: map[string]bool{}, Models: map[string]bool{}, Emulated: offered.Emulated}
	if cpu := offered.HostModel; cpu != nil {
		o.Vendor = nodecpu.LabelName(cpu.Vendor)
		for _, name := range cpu.Features {
			if nodecpu.LabelName(name) != "" {
				o.Features[name] = true
			}
		}
	}
	for _, name := range offered.Models {
		if nodecpu.LabelName(name) != "" && len(o.Models) < mostModels {
			o.Models[name] = true
		}
	}
	return o
}

// writeNode adds labels to the Node, and removes those that do not hold any more. After a failure the labels stay: the pods of running guests select them, and
// kubelet ends such pods when it starts again while a label is missing (issue 124586 of Kubernetes).
func (r *Reporter) writeNode(ctx context.Context) error {
	node := &corev1.Node{}
	if err := r.Cluster.Get(ctx, client.ObjectKey{Name: r.Node}, node); err != nil {
		return err
	}
	old := node.DeepCopy()
	if r.labels != nil {
		maps.DeleteFunc(node.Labels, func(key, _ string) bool {
			_, holds := r.labels[key]
			return nodecpu.FromKiln.Owns(key) && !holds
		})
		for key, value := range r.labels {
			metav1.SetMetaDataLabel(&node.ObjectMeta, key, value)
		}
	}
	if r.failure != "" {
		metav1.SetMetaDataAnnotation(&node.ObjectMeta, v1alpha1.AnnotationCPUFailure, r.failure)
	} else {
		delete(node.Annotations, v1alpha1.AnnotationCPUFailure)
	}
	if maps.Equal(node.Labels, old.Labels) && maps.Equal(node.Annotations, old.Annotations) {
		return nil
	}
	return r.Cluster.Patch(ctx, node, client.MergeFrom(old))
}
