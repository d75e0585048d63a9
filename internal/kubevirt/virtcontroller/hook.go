package virtcontroller

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
	// Image is the image of the launcher; empty for no hook.
	Image string
	// Protocol is HookSidecar or HookPlugin; empty for HookSidecar.
	Protocol string
}

// Validate returns an error if the protocol does not exist.
func (h Hook) Validate() error {
	if !slices.Contains([]string{HookSidecar, HookPlugin}, h.Protocol) {
		return fmt.Errorf("--hook-protocol is '%s', use %s or %s", h.Protocol, HookSidecar, HookPlugin)
	}
	return nil
}

// featureGate returns the feature gate of KubeVirt that the protocol requires. Without gate Sidecar KubeVirt refuses a VMI with hook sidecars.
func (h Hook) featureGate() string {
	if h.Protocol == HookPlugin {
		return "Plugins"
	}
	return "Sidecar"
}

// Constants of virt-controller and of KubeVirt's policy kubevirt-plugin-sidecar-subpath-policy. KubeVirt: pkg/virt-controller/services/template.go, v1.9.
const (
	launcherPod  = "virt-launcher"           // value of label kubevirt.io
	sockets      = "kubevirt-plugin-sockets" // the volume; only with gate Plugins
	socketFolder = "/var/run/kubevirt-plugin"
	launcherUser = 107 // of virt-launcher, and group of the pod's volumes even if virt-launcher is root
)

const (
	injectedName  = "kiln-hook"
	injectedIn    = "kiln" // name of the Plugin: virt-launcher takes no socket outside of its folder
	injectedMount = socketFolder + "/" + injectedIn
	// HookSocket is the socket of the Plugin in manifests/beside-kubevirt/plugin.
	HookSocket = injectedMount + "/hook.sock"
)

// AddContainer returns a pod of virt-launcher with the container of Kiln's hook. It returns nil for a pod that does not need the hook: a pod without a
// record, without KubeVirt's gate, the target of a migration, whose guest keeps its hardware, or a pod that only binds volumes. It returns an error if a pod
// needs the hook and this process does not add it, for example while the protocol is being changed: another replica may add it. The given pod is not
// changed. The caller checks who created the pod.
func (h Hook) AddContainer(pod *corev1.Pod) (*corev1.Pod, error) {
	if pod.Labels[v1.AppLabel] != launcherPod || !needsHook(pod) {
		return nil, nil
	}
	isHook := func(c corev1.Container) bool { return c.Name == injectedName }
	if slices.ContainsFunc(pod.Spec.InitContainers, isHook) || slices.ContainsFunc(pod.Spec.Containers, isHook) { // admission is asked again
		return nil, nil
	}
	compute := slices.IndexFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == "compute" })
	isSocketVolume := func(v corev1.Volume) bool { return v.Name == sockets && v.EmptyDir != nil }
	if compute < 0 || !slices.ContainsFunc(pod.Spec.Volumes, isSocketVolume) {
		return nil, nil
	}
	if h.Image == "" || h.Protocol != HookPlugin {
		return nil, errors.New("the guest has recorded hardware, and this webhook has no --hook-image, or not --hook-protocol=Plugin")
	}
	injected := *pod
	injected.Spec.InitContainers = append(slices.Clone(pod.Spec.InitContainers), h.hookContainer(isGuaranteed(pod.Spec.Containers[compute].Resources)))
	return &injected, nil
}

// needsHook reports whether a pod of virt-launcher boots a guest that has a record, or that gets its first one.
func needsHook(pod *corev1.Pod) bool {
	_, recorded := pod.Annotations[v1alpha1.AnnotationFrontend]
	_, binds := pod.Annotations[v1.EphemeralProvisioningObject]
	_, migrates := pod.Labels[v1.MigrationJobLabel]
	return recorded && !binds && !migrates
}

// hookContainer returns a native sidecar: kubelet starts it before virt-launcher, restarts it when it ends, and ends it after virt-launcher. An ordinary
// container would keep the pod from completing, because nobody tells a plugin that virt-launcher ends. It mounts only its own folder of the volume, because
// KubeVirt's policy requires that: containers of other plugins do not see its socket.
func (h Hook) hookContainer(guaranteed bool) corev1.Container {
	no, yes, user, always := false, true, int64(launcherUser), corev1.ContainerRestartPolicyAlways
	return corev1.Container{
		Name: injectedName, Image: h.Image, ImagePullPolicy: corev1.PullIfNotPresent,
		Args:          []string{"hook", "--socket=" + HookSocket},
		RestartPolicy: &always,
		Resources:     hookResources(guaranteed),
		VolumeMounts:  []corev1.VolumeMount{{Name: sockets, MountPath: injectedMount, SubPath: injectedIn}},
		SecurityContext: &corev1.SecurityContext{
			RunAsUser: &user, RunAsGroup: &user, RunAsNonRoot: &yes, AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes,
			Capabilities:   &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
	}
}

// hookResources returns the resources of the container. 53 MiB are resident after hundreds of definitions. Namespaces with a quota require limits.
func hookResources(guaranteed bool) corev1.ResourceRequirements {
	limits := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("200m"), corev1.ResourceMemory: resource.MustParse("128Mi")}
	if guaranteed {
		return corev1.ResourceRequirements{Requests: limits.DeepCopy(), Limits: limits}
	}
	return corev1.ResourceRequirements{Limits: limits,
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("48Mi")}}
}

// isGuaranteed reports whether the limits of a container equal its requests. Unless they do in each container, the pod is not of class Guaranteed, and kubelet
// gives its guest no exclusive CPUs.
func isGuaranteed(of corev1.ResourceRequirements) bool {
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		limit, limited := of.Limits[name]
		request, requested := of.Requests[name]
		if !limited || requested && request.Cmp(limit) != 0 {
			return false
		}
	}
	return true
}
