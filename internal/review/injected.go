package review

import (
	"errors"
	"fmt"
	"slices"

	"github.com/kilnvm/kiln/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"
)

// The protocols by which virt-launcher asks Kiln's hook. With HookSidecar, virt-controller adds the container that an annotation of the VMI asks for. With
// HookPlugin, Kiln's webhook for pods adds it, and a Plugin object says when it is asked.
const (
	HookSidecar = "Sidecar"
	HookPlugin  = "Plugin"
)

// Hook is the container that puts recorded hardware back into guests that KubeVirt runs.
type Hook struct {
	// Image is that of the launcher; empty for no hook.
	Image string
	// Protocol is HookSidecar or HookPlugin; empty for HookSidecar.
	Protocol string
}

// Known returns an error for a protocol that does not exist.
func (h Hook) Known() error {
	if !slices.Contains([]string{HookSidecar, HookPlugin}, h.Protocol) {
		return fmt.Errorf("--hook-protocol is '%s', use %s or %s", h.Protocol, HookSidecar, HookPlugin)
	}
	return nil
}

// gate is the gate of KubeVirt without which virt-launcher asks nobody by the protocol. With hook sidecars KubeVirt then refuses the VMI.
func (h Hook) gate() string {
	if h.Protocol == HookPlugin {
		return "Plugins"
	}
	return "Sidecar"
}

// What virt-controller and KubeVirt's policy kubevirt-plugin-sidecar-subpath-policy say of pods. KubeVirt: pkg/virt-controller/services/template.go, v1.9.
const (
	launcherPod  = "virt-launcher"           // value of label kubevirt.io
	sockets      = "kubevirt-plugin-sockets" // the volume; only with gate Plugins
	socketFolder = "/var/run/kubevirt-plugin"
	launcherUser = 107 // of virt-launcher, and group of the pod's volumes also where virt-launcher is root
)

const (
	injectedName  = "kiln-hook"
	injectedIn    = "kiln" // name of the Plugin: virt-launcher takes no socket outside of its folder
	injectedMount = socketFolder + "/" + injectedIn
	// HookSocket is the socket of the Plugin in manifests/beside-kubevirt/plugin.
	HookSocket = injectedMount + "/hook.sock"
)

// Injected returns a pod of virt-launcher with Kiln's hook, or nil for a pod that needs none: without a record, without KubeVirt's gate, the target of a
// migration, whose guest keeps its hardware, or one that only binds volumes. It fails where a pod needs the hook and this process adds none, as while the
// protocol is being changed: another replica may add it. The pod itself is not changed. Who has made the pod is for the caller to check.
func (h Hook) Injected(pod *corev1.Pod) (*corev1.Pod, error) {
	if pod.Labels[v1.AppLabel] != launcherPod || !asks(pod) {
		return nil, nil
	}
	ours := func(c corev1.Container) bool { return c.Name == injectedName }
	if slices.ContainsFunc(pod.Spec.InitContainers, ours) || slices.ContainsFunc(pod.Spec.Containers, ours) { // admission is asked again
		return nil, nil
	}
	compute := slices.IndexFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == "compute" })
	shared := func(v corev1.Volume) bool { return v.Name == sockets && v.EmptyDir != nil }
	if compute < 0 || !slices.ContainsFunc(pod.Spec.Volumes, shared) {
		return nil, nil
	}
	if h.Image == "" || h.Protocol != HookPlugin {
		return nil, errors.New("the guest has recorded hardware, and this webhook has no --hook-image, or not --hook-protocol=Plugin")
	}
	injected := *pod
	injected.Spec.InitContainers = append(slices.Clone(pod.Spec.InitContainers), h.container(guaranteed(pod.Spec.Containers[compute].Resources)))
	return &injected, nil
}

// asks reports whether a pod of virt-launcher boots a guest that has a record, or is to get one.
func asks(pod *corev1.Pod) bool {
	_, recorded := pod.Annotations[v1alpha1.AnnotationFrontend]
	_, binds := pod.Annotations[v1.EphemeralProvisioningObject]
	_, migrates := pod.Labels[v1.MigrationJobLabel]
	return recorded && !binds && !migrates
}

// container is a native sidecar: kubelet starts it before virt-launcher, again when it ends, and ends it after virt-launcher. Nobody tells a plugin that
// virt-launcher ends: an ordinary container would keep the pod from completing. It sees its own part of the volume, as KubeVirt's policy demands, so that
// containers of other plugins do not see its socket.
func (h Hook) container(guaranteed bool) corev1.Container {
	no, yes, user, always := false, true, int64(launcherUser), corev1.ContainerRestartPolicyAlways
	return corev1.Container{
		Name: injectedName, Image: h.Image, ImagePullPolicy: corev1.PullIfNotPresent,
		Args:          []string{"hook", "--socket=" + HookSocket},
		RestartPolicy: &always,
		Resources:     needs(guaranteed),
		VolumeMounts:  []corev1.VolumeMount{{Name: sockets, MountPath: injectedMount, SubPath: injectedIn}},
		SecurityContext: &corev1.SecurityContext{
			RunAsUser: &user, RunAsGroup: &user, RunAsNonRoot: &yes, AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes,
			Capabilities:   &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
	}
}

// needs are the resources of the container: 53 MiB are resident after hundreds of definitions. Namespaces with a quota demand limits.
func needs(guaranteed bool) corev1.ResourceRequirements {
	limits := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("200m"), corev1.ResourceMemory: resource.MustParse("128Mi")}
	if guaranteed {
		return corev1.ResourceRequirements{Requests: limits.DeepCopy(), Limits: limits}
	}
	return corev1.ResourceRequirements{Limits: limits,
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("48Mi")}}
}

// guaranteed reports whether a container has limits that are its requests. Each container of a pod needs them, or the pod is not of class Guaranteed, and
// kubelet gives its guest no CPUs of its own.
func guaranteed(of corev1.ResourceRequirements) bool {
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		limit, limited := of.Limits[name]
		request, requested := of.Requests[name]
		if !limited || requested && request.Cmp(limit) != 0 {
			return false
		}
	}
	return true
}
