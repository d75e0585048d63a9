package corpus

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/pod"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	psa "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	v1 "kubevirt.io/api/core/v1"
)

// sameVerdict tries whether admission refuses what no pod starts, and nothing else, if an administrator allows on the nodes what can be allowed, and each
// network has a resource of its own.
func sameVerdict(explicit *v1.VirtualMachineInstance) (broken findings) {
	cluster := config.Default()
	cluster.Limits.Runtime, cluster.Pods.StateClass = config.RuntimePod, "states"
	in := podInput(explicit)
	in.Network, in.Taps, in.LockedMemory, in.StateClass = pod.Passt, true, true, cluster.Pods.StateClass
	for i, name := range slices.Sorted(maps.Keys(in.NetworkResources)) {
		in.NetworkResources[name] = fmt.Sprintf("example.org/network-%d", i)
	}
	_, errs := pod.New(in)
	if made, refused := text(errs), text(admit.RefusedByRuntime(explicit, cluster)); made != refused {
		broken.add("admission refuses exactly what no pod starts", "%s", cmp.Diff(made, refused))
	}
	return broken
}

// podLaws tries the laws of pods on an explicit VMI, in a random cluster.
func podLaws(g generator, explicit *v1.VirtualMachineInstance) (broken findings) {
	in := podInput(explicit)
	in.VMI.Name, in.VMI.Labels = "neighbour", nil // the API server has judged metadata, and the engine has not
	in.Network = []pod.Network{pod.Passt, pod.Slirp}[g.IntN(2)]
	in.Taps, in.LockedMemory, in.Emulate = g.IntN(2) == 0, g.IntN(2) == 0, g.IntN(2) == 0
	if g.IntN(3) == 0 {
		in.LimitsDemanded = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}
	}
	broken = append(broken, sameVerdict(explicit)...)
	before := text(in)
	result, errs := pod.New(in)
	again, errsAgain := pod.New(in)
	if text(result) != text(again) || text(errs) != text(errsAgain) {
		broken.add("two pods of one VMI are the same", "%s", cmp.Diff(text(result), text(again)))
	}
	for _, err := range errs {
		if problem := unreal(err.Field, explicit, []byte(text(explicit))); problem != "" {
			broken.add("every path of a pod's error is real", "%s: %s", err.Field, problem)
		}
		if err.Detail == "" {
			broken.add("every error of a pod has a reason", "%s", err)
		}
	}
	for _, warning := range result.Warnings {
		at, _, _ := strings.Cut(warning, " ")
		if problem := unreal(at, explicit, []byte(text(explicit))); problem != "" {
			broken.add("every path of a pod's warning is real", "%s: %s", warning, problem)
		}
	}
	switch {
	case len(errs) == 0 && result.Pod == nil:
		broken.add("a VMI has a pod or errors", "neither")
	case len(errs) > 0 && result.Pod != nil:
		broken.add("a VMI has a pod or errors", "both: %v", errs.ToAggregate())
	case len(errs) == 0:
		broken = append(broken, legalPod(result.Pod)...)
		broken = append(broken, enoughMemory(in, result.Pod)...)
		broken = append(broken, oneDiskMore(g, in, result.Pod)...)
		if shared(in.VMI, result.Pod) {
			broken.add("nothing given is aliased", "the pod shares memory with the VMI")
		}
	}
	if after := text(in); after != before {
		broken.add("nothing given to a pod is modified", "%s", cmp.Diff(before, after))
	}
	return broken
}

// restricted are the checks of Pod Security, of its newest version.
var restricted = func() policy.Evaluator {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		panic(err)
	}
	return evaluator
}()

// legalPod tries what the API server demands of a pod.
func legalPod(made *corev1.Pod) (broken findings) {
	level := psa.LevelVersion{Level: psa.LevelRestricted, Version: psa.LatestVersion()}
	for _, check := range restricted.EvaluatePod(level, &made.ObjectMeta, &made.Spec) {
		if !check.Allowed {
			broken.add("Pod Security restricted admits a pod", "%s: %s", check.ForbiddenReason, check.ForbiddenDetail)
		}
	}
	container, volumes := made.Spec.Containers[0], map[string]bool{}
	for _, volume := range made.Spec.Volumes {
		if wrong := validation.IsDNS1123Label(volume.Name); len(wrong) > 0 || volumes[volume.Name] {
			broken.add("volumes of a pod have names of their own", "'%s': %v", volume.Name, wrong)
		}
		volumes[volume.Name] = true
	}
	paths := map[string]bool{}
	used := func(name, path string) {
		if !volumes[name] || paths[path] || path == "" {
			broken.add("each volume is mounted at a path of its own", "'%s' at '%s'", name, path)
		}
		paths[path] = true
	}
	for _, mount := range container.VolumeMounts {
		used(mount.Name, mount.MountPath)
	}
	for _, device := range container.VolumeDevices {
		used(device.Name, device.DevicePath)
	}
	if len(container.VolumeMounts)+len(container.VolumeDevices) != len(made.Spec.Volumes) {
		broken.add("each volume of a pod is used", "%d volumes", len(made.Spec.Volumes))
	}
	for name, limit := range container.Resources.Limits {
		request, requested := container.Resources.Requests[name]
		if !requested { // the API server makes the limit the request
			continue
		}
		if request.Cmp(limit) > 0 || strings.Contains(string(name), "/") && request.Cmp(limit) != 0 {
			broken.add("requests are within limits", "%s: %s of %s", name, request.String(), limit.String())
		}
	}
	for name := range container.Resources.Requests {
		_, limited := container.Resources.Limits[name]
		if extended := strings.Contains(string(name), "/") || strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix); extended && !limited {
			broken.add("devices and huge pages have limits", "%s", name)
		}
	}
	return append(broken, words(made)...)
}

// words tries names and labels of a pod.
func words(made *corev1.Pod) (broken findings) {
	for _, wrong := range [][]string{validation.IsDNS1123Subdomain(made.Name), validation.IsDNS1123Label(made.Spec.Hostname)} {
		if len(wrong) > 0 {
			broken.add("names of a pod are legal", "%q", wrong)
		}
	}
	for key, value := range made.Labels {
		if wrong := append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...); len(wrong) > 0 {
			broken.add("labels of a pod are legal", "%s=%s: %q", key, value, wrong)
		}
	}
	if seconds := *made.Spec.TerminationGracePeriodSeconds; seconds < 1 {
		broken.add("the launcher is asked to end before it is killed", "%d seconds", seconds)
	}
	return broken
}

// oneDiskMore adds a disk with an image: the pod has one volume and one mount more, and all else is as it was.
func oneDiskMore(g generator, in pod.Input, was *corev1.Pod) (broken findings) {
	in.VMI = in.VMI.DeepCopy()
	spec, at := &in.VMI.Spec, g.IntN(len(in.VMI.Spec.Volumes)+1)
	spec.Domain.Devices.Disks = append(spec.Domain.Devices.Disks, v1.Disk{Name: "one-more"})
	spec.Volumes = slices.Insert(spec.Volumes, at, v1.Volume{Name: "one-more",
		VolumeSource: v1.VolumeSource{ContainerDisk: &v1.ContainerDiskSource{Image: "more"}}})
	result, errs := pod.New(in)
	if len(errs) > 0 {
		broken.add("one disk more changes nothing else", "%v", errs.ToAggregate())
		return broken
	}
	now, container := result.Pod, &result.Pod.Spec.Containers[0]
	volumes, mounts := len(now.Spec.Volumes), len(container.VolumeMounts)
	now.Spec.Volumes = slices.DeleteFunc(now.Spec.Volumes, func(v corev1.Volume) bool { return v.Image != nil && v.Image.Reference == "more" })
	container.VolumeMounts = slices.DeleteFunc(container.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == pod.VolumePath("one-more") })
	if len(now.Spec.Volumes) != volumes-1 || len(container.VolumeMounts) != mounts-1 || text(now) != text(was) {
		broken.add("one disk more changes nothing else", "%s", cmp.Diff(text(was), text(now)))
	}
	return broken
}

// shared reports whether writing all over a pod changes the VMI that it was made of.
func shared(vmi *v1.VirtualMachineInstance, made *corev1.Pod) bool {
	before := text(vmi)
	scribble(reflect.ValueOf(made.DeepCopy())) // quantities keep memory of their own
	return text(vmi) != before
}

// TestPodsOfCases tries the laws on the cases under all settings that decide something.
func TestPodsOfCases(t *testing.T) {
	g := newGenerator(t, rand.New(rand.NewPCG(number("SEED", 1), 0)))
	cases, err := Load(".")
	if err != nil {
		t.Fatal(err)
	}
	pods := 0
	for _, c := range cases {
		admitted, err := c.Admit(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !admitted.Verdict.Allowed() || !admitted.Known {
			continue
		}
		for range 4 {
			for _, finding := range podLaws(g, admitted.Explicit) {
				t.Errorf("%s: %s", c.Name, finding)
			}
		}
		if result, _ := Pod(admitted.Explicit); result.Pod != nil {
			pods++
		}
	}
	if pods < 100 {
		t.Errorf("%d cases have a pod: the laws were tried on too few", pods)
	}
}
