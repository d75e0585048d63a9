package beside

import (
	"slices"
	"strings"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/record"
	"github.com/kilnvm/kiln/test/cluster"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	v1 "kubevirt.io/api/core/v1"
)

const (
	hookImage = "registry.example/kiln-launcher:1"
	newRecord = `{"metadata": {"annotations": {"kilnvm.io/frontend": "{}"}}}`
	// tenants is a pod that has all that a pod of virt-launcher has.
	tenants = `{apiVersion: v1, kind: Pod, metadata: {name: forged, labels: {kubevirt.io: virt-launcher}, annotations: {kilnvm.io/frontend: '{}'}},
spec: {containers: [{name: compute, image: a, volumeMounts: [{name: kubevirt-plugin-sockets, mountPath: /var/run/kubevirt-plugin}]}],
volumes: [{name: kubevirt-plugin-sockets, emptyDir: {}}]}}`
)

// plugin is the way of component beside-kubevirt/plugin: without KubeVirt's gate nothing is different; with it, the pods of guests with a record have the hook,
// which KubeVirt's own policies admit, and no other pod has it.
func (s space) plugin() {
	s.Helper()
	s.vm("pinned", v1.RunStrategyHalted, "")
	s.patch("pinned", newRecord)
	s.must("start", "pinned")
	was := s.runs("pinned")
	if _, recorded := was.Annotations[v1alpha1.AnnotationFrontend]; recorded || hooked(s.pod(was)) {
		s.Errorf("KubeVirt's gate is off, and the guest has annotations %v", was.Annotations)
	}
	if err := s.on.AddPlugin(s.Context()); err == nil || !strings.Contains(err.Error(), "Plugins feature gate is not enabled") {
		s.Errorf("the Plugin while KubeVirt's gate is off: %v", err)
	}
	s.gates(`["HostDisk", "Plugins"]`)
	s.eventually("virt-api admits the Plugin", func() (bool, any) {
		err := s.on.AddPlugin(s.Context())
		return err == nil, err
	})
	l := live{s, "pinned", s.afterRestart("pinned", true)}
	_, err := s.on.Get(s.Context(), cluster.In{Kind: "validatingadmissionpolicybinding"}, "kubevirt-plugin-sidecar-subpath-binding")
	s.ok(err) // it has admitted the pod
	if text := l.was.Annotations[v1alpha1.AnnotationFrontend]; text == "" || l.was.Annotations["hooks.kubevirt.io/hookSidecars"] != "" {
		s.Errorf("annotations of the VMI: %v", l.was.Annotations)
	}
	l.migrates()
	for _, pod := range s.pods("pinned") {
		if target := pod.Labels[v1.MigrationJobLabel] != ""; target == hooked(&pod) {
			s.Errorf("the target of a migration %t, the hook %t", target, hooked(&pod))
		}
	}
	plain := s.starts("plain", "").was
	if pod := s.pod(plain); hooked(pod) || len(sockets(pod)) == 0 {
		s.Errorf("a guest without a record: hook %t, volumes of the gate %v", hooked(pod), sockets(pod))
	}
	s.followsGuest()
	forged := as[corev1.Pod](s, s.create(tenants))
	if len(forged.Spec.InitContainers) != 0 {
		s.Errorf("a tenant's pod has %+v", forged.Spec.InitContainers)
	}
	s.ok(s.on.Delete(s.Context(), s.in("pod"), "forged"))
	s.gates(`["HostDisk"]`)
	if now := s.afterRestart("pinned", false); now.Annotations[v1alpha1.AnnotationFrontend] != "" {
		s.Errorf("KubeVirt's gate is off again, and the VMI has annotations %v", now.Annotations)
	}
	s.noFight()
}

// followsGuest: a device that a VM gets is in its GuestHardware after the next start, and the GuestHardware goes with the VM.
func (s space) followsGuest() {
	s.Helper()
	s.vm("recorded", v1.RunStrategyHalted, "")
	s.patch("recorded", newRecord)
	s.must("start", "recorded")
	was := s.runs("recorded")
	has := func(device string) func() (bool, any) {
		return func() (bool, any) {
			hardware, err := s.on.Get(s.Context(), s.in("guesthardware"), "recorded")
			if err != nil {
				return false, err
			}
			devices, _, _ := unstructured.NestedMap(hardware.Object, "spec", "hardware", "devices")
			_, found := devices[device]
			return found, hardware
		}
	}
	s.eventually("the first start is recorded", has(record.Key("disk", "root")))
	s.patch("recorded", `{"spec": {"template": {"spec": {"domain": {"devices": {"rng": {}}}}}}}`)
	s.must("stop", "recorded")
	s.gone("recorded")
	s.must("start", "recorded")
	s.runs("recorded", string(was.UID))
	s.eventually("the new device is recorded", has(record.Key("rng", "rng")))
	s.ok(s.on.Delete(s.Context(), s.in("vm"), "recorded"))
	s.eventually("the GuestHardware is gone", func() (bool, any) {
		_, err := s.on.Get(s.Context(), s.in("guesthardware"), "recorded")
		return err != nil, err
	})
}

// gates sets the feature gates of KubeVirt.
func (s space) gates(list string) {
	s.Helper()
	s.ok(s.on.MergePatch(s.Context(), cluster.In{Namespace: s.on.KubeVirt, Kind: "kubevirt"}, "kubevirt",
		`{"spec": {"configuration": {"developerConfiguration": {"featureGates": `+list+`}}}}`))
}

// afterRestart stops and starts a VM until its pod has the hook, or has none: webhook and virt-controller learn of gates after some time.
func (s space) afterRestart(name string, want bool) (vmi *v1.VirtualMachineInstance) {
	s.Helper()
	was := s.guest(name)
	for end := time.Now().Add(patience); time.Now().Before(end); {
		s.must("stop", name)
		s.gone(name)
		s.must("start", name) // sooner than 'restart', after which virt-controller waits
		vmi = s.runs(name, string(was.UID))
		if pod := s.pod(vmi); hooked(pod) == want && (len(sockets(pod)) > 0) == want {
			return vmi
		}
		was = vmi
	}
	s.Fatalf("no pod of %s has become one with the hook: %t", name, want)
	return nil
}

// pods returns the virt-launcher pods of all VMIs with a name.
func (s space) pods(name string) (found []corev1.Pod) {
	s.Helper()
	list, err := s.on.List(s.Context(), s.in("pod"), "kubevirt.io=virt-launcher")
	s.ok(err)
	for i := range list.Items {
		if pod := as[corev1.Pod](s, &list.Items[i]); pod.Annotations[v1.DomainAnnotation] == name {
			found = append(found, *pod)
		}
	}
	return found
}

// pod returns the only pod of a VMI that runs.
func (s space) pod(vmi *v1.VirtualMachineInstance) *corev1.Pod {
	s.Helper()
	for _, pod := range s.pods(vmi.Name) {
		if slices.ContainsFunc(pod.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == vmi.UID }) {
			return &pod
		}
	}
	s.Fatalf("%s has no pod", vmi.Name)
	return nil
}

// hooked reports whether a pod has the hook, as it is meant to be: the API server has defaulted it.
func hooked(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.InitContainers, func(c corev1.Container) bool {
		return c.Image == hookImage && c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways &&
			slices.Equal(c.Args, []string{"hook", "--socket=/var/run/kubevirt-plugin/kiln/hook.sock"}) && len(c.VolumeMounts) == 1 && c.Env == nil
	})
}

// sockets are the volumes that the gate adds.
func sockets(pod *corev1.Pod) (found []corev1.Volume) {
	for _, volume := range pod.Spec.Volumes {
		if volume.Name == "kubevirt-plugin-sockets" {
			found = append(found, volume)
		}
	}
	return found
}
