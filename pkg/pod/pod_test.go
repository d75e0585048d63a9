package pod

import (
	"reflect"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// base is a VMI as stage 1 leaves it, without disks and interfaces.
const base = `
metadata: {name: web, namespace: shop, uid: 5f0c1f6e-6d2a-4c7b-9a43-8f3e1d2c7b6a}
spec:
  architecture: amd64
  domain: {cpu: {cores: 1, sockets: 2, threads: 1}, memory: {guest: 512Mi}, devices: {}}
`

// input is base with the fields of a spec laid over it, in a cluster of passt. Its networks of Multus exist, and have no resource.
func input(t *testing.T, spec string) Input {
	t.Helper()
	whole, err := yaml.YAMLToJSON([]byte(base))
	if err != nil {
		t.Fatal(err)
	}
	more, err := yaml.YAMLToJSON([]byte("spec: {" + spec + "}"))
	if err != nil {
		t.Fatalf("%v\n%s", err, spec)
	}
	if whole, err = jsonpatch.MergePatch(whole, more); err != nil {
		t.Fatal(err)
	}
	in := Input{VMI: &v1.VirtualMachineInstance{}, Settings: Settings{Image: "launcher:1", Network: Passt}}
	if err := yaml.UnmarshalStrict(whole, in.VMI); err != nil {
		t.Fatalf("%v\n%s", err, spec)
	}
	in.NetworkResources = map[string]string{}
	for _, network := range in.VMI.Spec.Networks {
		if network.Multus != nil {
			in.NetworkResources[network.Multus.NetworkName] = ""
		}
	}
	return in
}

// made is the pod of an input that is served without a warning.
func made(t *testing.T, in Input) *corev1.Pod {
	t.Helper()
	result, errs := New(in)
	if len(errs)+len(result.Warnings) > 0 {
		t.Fatalf("%v, %q", errs.ToAggregate(), result.Warnings)
	}
	return result.Pod
}

// container returns the container of the pod.
func container(t *testing.T, in Input) corev1.Container {
	t.Helper()
	return made(t, in).Spec.Containers[0]
}

// onPodNetwork is an interface on the pod network, with more fields.
func onPodNetwork(more string) string {
	return "domain: {devices: {interfaces: [{name: default" + more + "}]}}, networks: [{name: default, pod: {}}]"
}

// typesAndFields returns the type and the field of each error.
func typesAndFields(errs field.ErrorList) (list []string) {
	for _, err := range errs {
		list = append(list, string(err.Type)+" "+err.Field)
	}
	return list
}

// TestWhole: the pod of a usual VMI, field by field.
func TestWhole(t *testing.T) {
	in := input(t, `
    domain: {firmware: {bootloader: {efi: {secureBoot: false}}}, devices: {interfaces: [{name: default, masquerade: {}, ports: [{name: http, port: 80}]}],
      disks: [{name: system, disk: {bus: virtio}}, {name: data, disk: {bus: virtio}}, {name: old, disk: {bus: virtio}}, {name: init, disk: {bus: virtio}}]}},
    networks: [{name: default, pod: {}}],
    volumes: [{name: system, containerDisk: {image: "debian:12", imagePullSecret: pull}}, {name: data, persistentVolumeClaim: {claimName: block}},
      {name: old, dataVolume: {name: file}}, {name: init, cloudInitNoCloud: {secretRef: {name: user}, networkDataSecretRef: {name: net}}}]`)
	in.Claims = map[string]Claim{"block": {Block: true}, "file": {}}
	pod := made(t, in)
	if pod.Name != "guest-web" || pod.Namespace != "shop" || !cmp.Equal(pod.Finalizers, []string{v1alpha1.FinalizerGuestPod}) ||
		!metav1.IsControlledBy(pod, in.VMI) {
		t.Errorf("metadata %+v", pod.ObjectMeta)
	}
	if diff := cmp.Diff(map[string]string{corev1.LabelArchStable: "amd64", v1alpha1.LabelPasst: "true"}, pod.Spec.NodeSelector); diff != "" {
		t.Errorf("nodes: %s", diff)
	}
	c := pod.Spec.Containers[0]
	mounts := map[string]string{}
	for _, m := range c.VolumeMounts {
		mounts[m.Name] = m.MountPath
	}
	want := map[string]string{"private": "/var/run/kiln", "temporary": "/tmp", "volume-system": "/volumes/system", "volume-old": "/volumes/old",
		"userdata-init": "/secrets/init/userdata", "networkdata-init": "/secrets/init/networkdata"}
	if diff := cmp.Diff(want, mounts); diff != "" {
		t.Errorf("mounts: %s", diff)
	}
	if diff := cmp.Diff([]corev1.VolumeDevice{{Name: "volume-data", DevicePath: "/dev/volumes/data"}}, c.VolumeDevices); diff != "" {
		t.Errorf("devices: %s", diff)
	}
	if diff := cmp.Diff([]corev1.ContainerPort{{Name: "http", ContainerPort: 80, Protocol: "TCP"}}, c.Ports); diff != "" {
		t.Errorf("ports: %s", diff)
	}
	if diff := cmp.Diff([]corev1.LocalObjectReference{{Name: "pull"}}, pod.Spec.ImagePullSecrets); diff != "" {
		t.Errorf("pull secrets: %s", diff)
	}
}

func TestOfChangesNothing(t *testing.T) {
	in := input(t, "affinity: {nodeAffinity: {}}, tolerations: [{key: a}], "+onPodNetwork(", masquerade: {}"))
	before := in.VMI.DeepCopy()
	first, _ := New(in)
	first.Pod.Spec.Tolerations[0].Key = "changed" // what the caller does with the pod is its own affair
	second, _ := New(in)
	if diff := cmp.Diff(before, in.VMI); diff != "" {
		t.Errorf("the VMI changed: %s", diff)
	}
	if second.Pod.Spec.Tolerations[0].Key != "a" {
		t.Error("two pods of one VMI share memory")
	}
}

func TestName(t *testing.T) {
	long := strings.Repeat("a", 200)
	for _, test := range []struct{ why, vmi, want string }{
		{"as it is", "web", "guest-web"},
		{"a subdomain", "web.one", "guest-web.one"},
	} {
		if got := Name(test.vmi); got != test.want {
			t.Errorf("%s: got '%s', want '%s'", test.why, got, test.want)
		}
	}
	seen := map[string]string{}
	// The name that another one was cut to, chosen on purpose, is cut itself.
	forged := strings.TrimPrefix(Name(long), "guest-")
	for _, vmi := range []string{long, long + "b", strings.Repeat("a.", 110) + "a", strings.Repeat("a", 125), strings.Repeat("a", 126),
		strings.Repeat("a", 127), forged, strings.Repeat("a", 126) + ".b" + long[:40]} {
		name := Name(vmi)
		if other, taken := seen[name]; taken {
			t.Errorf("'%s' and '%s' have one name", other, vmi)
		}
		seen[name] = vmi
		if wrong := validation.IsDNS1123Subdomain(name); len(wrong) > 0 || len(name) > longestName {
			t.Errorf("'%s': %d bytes, %v", name, len(name), wrong)
		}
	}
}

func TestAccount(t *testing.T) {
	for _, test := range []struct{ why, spec, want string }{
		{"its own", "", "guest-web"},
		{"the account of the VMI", "serviceAccountName: mine", "mine"},
		{"the account of a volume: a pod can only have tokens of its own account", "volumes: [{name: a, serviceAccount: {serviceAccountName: theirs}}]", "theirs"},
	} {
		in := input(t, test.spec)
		pod := made(t, in)
		if got := pod.Spec.ServiceAccountName; got != test.want || Account(in.VMI) != test.want || !*pod.Spec.AutomountServiceAccountToken {
			t.Errorf("%s: got '%s', want '%s'", test.why, got, test.want)
		}
	}
}

// TestEnvironment: the launcher learns who it is from Kubernetes, and not from what a tenant wrote.
func TestEnvironment(t *testing.T) {
	got := map[string]string{}
	for _, v := range container(t, input(t, "")).Env {
		got[v.Name] = v.Value
		if v.ValueFrom != nil {
			got[v.Name] = v.ValueFrom.FieldRef.FieldPath
		}
	}
	want := map[string]string{EnvVMI: "web", EnvPodName: "metadata.name", EnvNamespace: "metadata.namespace", EnvPodUID: "metadata.uid",
		EnvNode: "spec.nodeName"}
	if !reflect.DeepEqual(got, want) {
		t.Error(cmp.Diff(want, got))
	}
}
