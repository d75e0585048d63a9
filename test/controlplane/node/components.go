package node

import (
	"context"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kilnvm/kiln/test/controlplane/authority"
	"github.com/kilnvm/kiln/test/controlplane/component"
)

// program is one of a node, and how to see that those after it can start. Without ready they need not wait.
type program struct {
	path  string
	args  []string
	ready func(context.Context) bool
}

func (s Spec) containerdProgram() program {
	return program{filepath.Join(s.Tools.Containers, "containerd"), []string{"--config", s.pathInDir("containerd.toml")}, func(ctx context.Context) bool {
		runtime, err := s.connectRuntime(ctx)
		if err != nil {
			return false
		}
		_, err = runtime.Version(ctx, "")
		return err == nil
	}}
}

// planePrograms returns what the first node runs besides: all of Kubernetes' controllers, unlike the bare control plane.
func (s Spec) planePrograms(api kubernetes.Interface) []program {
	return []program{
		s.kubernetesProgram("etcd", component.Etcd()),
		{path: filepath.Join(s.Tools.Kubernetes, "kube-apiserver"), args: s.apiServerArgs(), ready: func(ctx context.Context) bool {
			return api.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error() == nil
		}},
		s.kubernetesProgram("kube-controller-manager", component.ControllerManager(
			"--kubeconfig="+s.kubeconfigPath(controllerManager),
			"--root-ca-file=ca.crt", // without it no namespace gets the ConfigMap that every pod mounts
			"--service-account-private-key-file=sa.key",
			"--flex-volume-plugin-dir=volume-plugins",
		)),
		s.kubernetesProgram("kube-scheduler", []string{"--kubeconfig=" + s.kubeconfigPath(scheduler), "--leader-elect=false", "--secure-port=0"}),
	}
}

func (s Spec) apiServerArgs() []string {
	return append(component.APIServer(
		"--bind-address="+s.Address(),
		"--advertise-address="+s.Address(),
		"--secure-port="+apiPort,
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--service-cluster-ip-range="+serviceRange,
		"--kubelet-client-certificate=apiserver-kubelet.crt",
		"--kubelet-client-key=apiserver-kubelet.key",
		"--kubelet-certificate-authority=ca.crt",
		"--kubelet-preferred-address-types=InternalIP", // nobody resolves the names of nodes
	), s.APIServer...)
}

// agentPrograms returns what every node runs.
func (s Spec) agentPrograms() []program {
	return []program{
		s.kubernetesProgram("kubelet", []string{
			"--config=" + s.pathInDir("kubelet.yaml"),
			"--kubeconfig=" + s.kubeconfigPath(s.kubeletUser()),
			"--root-dir=" + s.pathInDir("kubelet"),
			"--cert-dir=" + s.pathInDir("kubelet-certificates"),
			"--hostname-override=" + s.Name,
			"--node-ip=" + s.Address(),
		}),
		s.kubernetesProgram("kube-proxy", []string{"--config=" + s.pathInDir("proxy.yaml")}),
	}
}

func (s Spec) kubernetesProgram(name string, args []string) program {
	return program{path: filepath.Join(s.Tools.Kubernetes, name), args: args}
}

// isReady tells that pods can be created, and will run here. A node that was killed is ready as far as the API server knows, until its kubelet writes again.
func (s Spec) isReady(ctx context.Context, api kubernetes.Interface, began time.Time) bool {
	node, err := api.CoreV1().Nodes().Get(ctx, s.Name, metav1.GetOptions{})
	if err != nil {
		return false
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue && condition.LastHeartbeatTime.After(began) {
			_, err := api.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
			return err == nil
		}
	}
	return false
}

// adminKubeconfig returns the kubeconfig by which the node looks at itself.
func (s Spec) adminKubeconfig() string { return s.kubeconfigPath(authority.Admin) }
