package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// Nodes of the cluster with KubeVirt.
var nodeNames = []string{"node01", "node02"}

// nodeCPUs are the labels of KubeVirt's node-labeller: the second node is newer. A host-model guest finds a target by the labels of known models.
var nodeCPUs = map[string]map[string]string{
	"node01": trueLabels(v1.HostModelCPULabel+"EPYC", v1.CPUModelLabel+"EPYC", v1.CPUFeatureLabel+"avx2", v1.CPUFeatureLabel+"svm"),
	"node02": trueLabels(v1.HostModelCPULabel+"EPYC-Rome", v1.CPUModelLabel+"EPYC", v1.CPUModelLabel+"EPYC-Rome", v1.CPUFeatureLabel+"avx2",
		v1.CPUFeatureLabel+"svm", v1.CPUFeatureLabel+"clwb"),
}

func trueLabels(keys ...string) map[string]string {
	labels := map[string]string{v1.CPUModelVendorLabel + "AMD": "true", v1.SupportedHostModelMigrationCPU + "EPYC": "true",
		v1.SupportedHostModelMigrationCPU + "EPYC-Rome": "true"}
	for _, key := range keys {
		labels[key] = "true"
	}
	return labels
}

// nodes plays what a cluster has besides KubeVirt's servers: the scheduler binds virt-launcher's pods, kubelets run and end them, and the virt-handler of each
// node writes VMIs. It starts no guest.
type nodes struct {
	b        *Beside
	pods     kubernetes.Interface
	seen     cache.Cache                                       // pods and VMIs
	handlers map[string]dynamic.NamespaceableResourceInterface // by node
	cancel   context.CancelFunc
	ended    chan struct{}

	mutex  sync.Mutex
	paused bool
	errs   []string // what was refused
}

var vmis = schema.GroupVersionResource{Group: v1.GroupVersion.Group, Version: v1.GroupVersion.Version, Resource: "virtualmachineinstances"}

// startNodes creates the nodes, and begins to play.
func (b *Beside) startNodes(ctx context.Context) error {
	config, err := clientcmd.BuildConfigFromFlags("", b.Kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1
	n := &nodes{b: b, handlers: map[string]dynamic.NamespaceableResourceInterface{}, ended: make(chan struct{})}
	if n.pods, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), v1.AddToScheme(scheme)); err != nil {
		return err
	}
	if n.seen, err = cache.New(config, cache.Options{Scheme: scheme}); err != nil {
		return err
	}
	for _, name := range nodeNames {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.NodeSchedulable: "true", corev1.LabelHostname: name}}}
		maps.Copy(node.Labels, nodeCPUs[name])
		if _, err := n.pods.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
			return err
		}
		client, err := dynamic.NewForConfig(b.asHandler(config, name))
		if err != nil {
			return err
		}
		n.handlers[name] = client.Resource(vmis)
	}
	playing, cancel := context.WithCancel(context.WithoutCancel(ctx))
	n.cancel, b.nodes = cancel, n
	go func() {
		defer close(n.ended)
		var watching sync.WaitGroup
		watching.Go(func() { _ = n.seen.Start(playing) }) // which ends with the context, and without an error
		n.play(playing)
		watching.Wait()
	}()
	return nil
}

// asHandler is the access of the virt-handler of a node: its service account's token claims the node.
func (b *Beside) asHandler(config *rest.Config, node string) *rest.Config {
	config = rest.CopyConfig(config)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + b.KubeVirt + ":kubevirt-handler",
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + b.KubeVirt, "system:authenticated"},
		Extra:    map[string][]string{"authentication.kubernetes.io/node-name": {node}},
	}
	return config
}

// Pause stops the nodes' work between two rounds, or has it go on.
func (b *Beside) Pause(paused bool) {
	b.nodes.mutex.Lock()
	defer b.nodes.mutex.Unlock()
	b.nodes.paused = paused
}

// Refused returns the errors that the nodes' components met, except conflicts and missing objects. It returns none if all is well.
func (b *Beside) Refused() []string {
	b.nodes.mutex.Lock()
	defer b.nodes.mutex.Unlock()
	return slices.Clone(b.nodes.errs)
}

func (n *nodes) stop() {
	n.cancel()
	<-n.ended
}

// round is the time between two looks at pods and VMIs.
const round = 200 * time.Millisecond

func (n *nodes) play(ctx context.Context) {
	tick := time.NewTicker(round)
	defer tick.Stop()
	var beat time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		n.mutex.Lock()
		if !n.b.own && time.Since(beat) > beats {
			beat = time.Now()
			n.beat(ctx)
		}
		if !n.paused {
			n.look(ctx)
		}
		n.mutex.Unlock()
	}
}

// beats is the time between two reports of a kubelet.
const beats = 10 * time.Second

// beat reports that the nodes are ready. A node controller evicts the pods of a node that does not report for some minutes.
func (n *nodes) beat(ctx context.Context) {
	for _, name := range nodeNames {
		patch := fmt.Sprintf(`{"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Played", "lastHeartbeatTime": %q}]}}`,
			time.Now().UTC().Format(time.RFC3339))
		_, err := n.pods.CoreV1().Nodes().PatchStatus(ctx, name, []byte(patch))
		n.note(ctx, "node "+name, err)
	}
}

// look does a step of each pod and of each VMI. Both are copies of what a watch has brought, which a step may change.
func (n *nodes) look(ctx context.Context) {
	var pods corev1.PodList
	var list v1.VirtualMachineInstanceList
	if err := errors.Join(n.seen.List(ctx, &pods), n.seen.List(ctx, &list)); err != nil {
		n.note(ctx, "reading", err)
		return
	}
	at := map[types.UID]string{} // nodes of pods
	for i := range pods.Items {
		at[pods.Items[i].UID] = pods.Items[i].Spec.NodeName
	}
	guests := map[types.NamespacedName]*v1.VirtualMachineInstance{}
	for i := range list.Items {
		vmi := &list.Items[i]
		guests[types.NamespacedName{Namespace: vmi.Namespace, Name: vmi.Name}] = vmi
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		n.note(ctx, "pod "+pod.Namespace+"/"+pod.Name, n.pod(ctx, pod, at, guests))
	}
	for _, vmi := range guests {
		n.note(ctx, "VMI "+vmi.Namespace+"/"+vmi.Name, n.vmi(ctx, vmi))
	}
}

// note keeps an error that is not of the moment.
func (n *nodes) note(ctx context.Context, of string, err error) {
	if err == nil || ctx.Err() != nil || passing(err) {
		return
	}
	if text := fmt.Sprintf("%s: %v", of, err); !slices.Contains(n.errs, text) {
		n.errs = append(n.errs, text)
	}
}

// write puts a VMI as the virt-handler of a node does.
func (n *nodes) write(ctx context.Context, node string, vmi *v1.VirtualMachineInstance) error {
	client, known := n.handlers[node]
	if !known {
		return fmt.Errorf("no node '%s'", node)
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(vmi)
	if err != nil {
		return err
	}
	u := &unstructured.Unstructured{Object: object}
	u.SetGroupVersionKind(v1.VirtualMachineInstanceGroupVersionKind)
	_, err = client.Namespace(vmi.Namespace).Update(ctx, u, metav1.UpdateOptions{})
	return err
}

// launcher reports whether a pod is virt-launcher's, or holds volumes that are plugged into one.
func launcher(pod *corev1.Pod) bool {
	return strings.HasPrefix(pod.Name, "virt-launcher-") || strings.HasPrefix(pod.Name, "hp-")
}
