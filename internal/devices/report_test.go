package devices

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	crclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// good is what kubelet says of itself where nothing is missing.
var good = corev1.NodeSystemInfo{KubeletVersion: "v1.35.1", ContainerRuntimeVersion: "containerd://2.2.0"}

// cluster has one Node, whose kubelet has written a condition and a label, and counts writes.
func cluster(t *testing.T, info corev1.NodeSystemInfo) (c crclient.Client, writes *int) {
	t.Helper()
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{corev1.LabelHostname: "n"}},
		Status:     corev1.NodeStatus{NodeInfo: info, Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
	writes = new(int)
	return fake.NewClientBuilder().WithObjects(node).WithStatusSubresource(node).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c crclient.WithWatch, o crclient.Object, p crclient.Patch, opts ...crclient.PatchOption) error {
			*writes++
			return c.Patch(ctx, o, p, opts...)
		},
		SubResourcePatch: func(ctx context.Context, c crclient.Client, sub string, o crclient.Object, p crclient.Patch,
			opts ...crclient.SubResourcePatchOption) error {
			*writes++
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
	}).Build(), writes
}

func nodeOf(t *testing.T, c crclient.Client) *corev1.Node {
	t.Helper()
	node := &corev1.Node{}
	if err := c.Get(t.Context(), crclient.ObjectKey{Name: "n"}, node); err != nil {
		t.Fatal(err)
	}
	return node
}

// guests is the condition of a node, with its times left out.
func guests(node *corev1.Node) (found corev1.NodeCondition) {
	for _, has := range node.Status.Conditions {
		if has.Type == v1alpha1.ConditionGuests {
			has.LastHeartbeatTime, has.LastTransitionTime = metav1.Time{}, metav1.Time{}
			return has
		}
	}
	return found
}

// TestFindings: missing things make the condition False, unknown things do not, and the label of passt depends only on the needs of passt.
func TestFindings(t *testing.T) {
	old, cri := good, good
	old.KubeletVersion, old.ContainerRuntimeVersion = "v1.34.9+vendor", "containerd://1.7.27"
	cri.KubeletVersion, cri.ContainerRuntimeVersion = "next", "cri-o://1.35.0"
	const unset = "containerd: device_ownership_from_security_context is not set: block volumes belong to root, and no guest with one starts"
	for _, c := range []struct {
		why    string
		info   corev1.NodeSystemInfo
		change func(t *testing.T, f *Folders)
		status corev1.ConditionStatus
		want   string
		passt  bool
	}{
		{"all is there", good, func(*testing.T, *Folders) {}, "True", "nothing is missing", true},
		{"an old node", old, func(*testing.T, *Folders) {}, "False",
			"kubelet is v1.34.9+vendor, image volumes need 1.35.0 or newer; containerd is 1.7.27, image volumes need 2.1.0 or newer", true},
		{"another runtime", cri, func(*testing.T, *Folders) {}, "True", "kubelet: its version 'next' cannot be read; image volumes need 1.35.0 or newer; " +
			"device_ownership_from_security_context of 'cri-o://1.35.0' is not looked at; without it block volumes belong to root, and no guest with one starts", true},
		{"no device", good, func(t *testing.T, f *Folders) { remove(t, onMachine(*f, Served[3])) }, "False",
			"devices.kubevirt.io/vhost-vsock: the machine has no /dev/vhost-vsock", true},
		{"folders of others", good, func(t *testing.T, f *Folders) {
			write(t, f.Seccomp, "a file")
			write(t, f.CDI, "a file")
		}, "False", "only containerd's device_ownership_from_security_context gives devices to the user of guests: their description for CDI cannot be " +
			"written: mkdir CDI: not a directory; passt: its seccomp profile cannot be written: mkdir SECCOMP: not a directory", false},
		{"no seccomp", good, func(t *testing.T, f *Folders) { write(t, filepath.Join(f.Proc, "self/status"), "Seccomp:\t0\n") }, "False",
			"passt: containers run without seccomp, although the pod asks for profile RuntimeDefault", false},
		{"no user namespaces", good, func(t *testing.T, f *Folders) { write(t, filepath.Join(f.Proc, "sys/user/max_user_namespaces"), "0\n") }, "False",
			"passt: sysctl user.max_user_namespaces is 0: users may not make user namespaces", false},
		{"none for users of Debian", good, func(t *testing.T, f *Folders) {
			write(t, filepath.Join(f.Proc, "sys/kernel/unprivileged_userns_clone"), "0\n")
		},
			"False", "passt: sysctl kernel.unprivileged_userns_clone is 0: users may not make user namespaces", false},
		{"AppArmor", good, func(t *testing.T, f *Folders) {
			write(t, filepath.Join(f.Proc, "self/attr/current"), "cri-containerd.apparmor.d (enforce)\n")
		},
			"False", "passt: AppArmor confines containers by profile 'cri-containerd.apparmor.d', which forbids the mounts by which passt isolates itself", false},
		{"few open files", good, func(t *testing.T, f *Folders) {
			write(t, filepath.Join(f.Proc, "self/limits"), "Limit                     Soft Limit           Hard Limit           Units     \n"+
				"Max open files            1024                 20000                files     \n")
		}, "False", "passt: a container may open 20000 files: ports 1 to 8976 are forwarded to an interface that lists none", true},
		{"hardly any open files", good, func(t *testing.T, f *Folders) {
			write(t, filepath.Join(f.Proc, "self/limits"), "Max open files            1024                 4095                 files     \n")
		}, "False", "passt: a container may open 4095 files: guests with an interface that lists no ports do not start", true},
		{"many open files", good, func(t *testing.T, f *Folders) {
			write(t, filepath.Join(f.Proc, "self/limits"), "Max open files            1024                 1048576              files     \n")
		}, "True", "nothing is missing", true},
		{"SELinux", good, func(t *testing.T, f *Folders) {
			write(t, filepath.Join(f.Proc, "self/attr/current"), "system_u:system_r:spc_t:s0\x00")
		},
			"True", "nothing is missing", true},
		{"containerd's own default", good, func(t *testing.T, f *Folders) { write(t, filepath.Join(f.Containerd, "config.toml"), "version = 3\n") },
			"False", unset, true},
		{"block volumes that somebody has disabled", good, func(t *testing.T, f *Folders) {
			write(t, filepath.Join(f.Containerd, "config.toml"), "[plugins.'io.containerd.grpc.v1.cri']\ndevice_ownership_from_security_context = false\n")
		}, "False", unset, true},
		{"an imported file", good, func(t *testing.T, f *Folders) {
			write(t, filepath.Join(f.Containerd, "config.toml"), "imports = ['/etc/containerd/conf.d/*.toml']\n")
			write(t, filepath.Join(f.Containerd, "conf.d/kiln.toml"),
				"[plugins.'io.containerd.grpc.v1.cri']\ndevice_ownership_from_security_context = true\n")
		}, "True", "nothing is missing", true},
		{"an imported file elsewhere", good, func(t *testing.T, f *Folders) {
			write(t, filepath.Join(f.Containerd, "config.toml"), "imports = ['/opt/a.toml']\n")
		}, "True", "containerd: whether device_ownership_from_security_context is set is unknown: config.toml imports /opt/a.toml; " +
			"without it block volumes belong to root, and no guest with one starts", true},
		{"a configuration elsewhere", good, func(t *testing.T, f *Folders) { f.Containerd = "/nowhere" }, "True",
			"containerd: whether device_ownership_from_security_context is set is unknown: open /nowhere/config.toml: no such file or directory; " +
				"without it block volumes belong to root, and no guest with one starts", true},
	} {
		f := machine(t)
		c.change(t, &f)
		in, _ := cluster(t, c.info)
		a := &Agent{Node: "n", Cluster: in, Folders: f, Count: 1, Log: logr.Discard()}
		if err := a.reportOnce(t.Context()); err != nil {
			t.Errorf("%s: %v", c.why, err)
			continue
		}
		reason := map[corev1.ConditionStatus]string{"True": "Complete", "False": "Incomplete"}[c.status]
		want := corev1.NodeCondition{Type: "KilnGuests", Status: c.status, Reason: reason, Message: c.want}
		got := guests(nodeOf(t, in))
		got.Message = strings.NewReplacer(f.CDI, "CDI", filepath.Join(f.Seccomp, "kiln"), "SECCOMP", f.Seccomp, "SECCOMP").Replace(got.Message)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -want +got\n%s", c.why, diff)
		}
		if label, has := nodeOf(t, in).Labels["kilnvm.io/passt"]; has != c.passt || has && label != "true" {
			t.Errorf("%s: label '%s', want one: %t", c.why, label, c.passt)
		}
	}
}

// TestNodeIsWrittenOnChange: once, and again after somebody else's write or a change of the machine; what others wrote stays.
func TestNodeIsWrittenOnChange(t *testing.T) {
	f := machine(t)
	in, writes := cluster(t, good)
	a := &Agent{Node: "n", Cluster: in, Folders: f, Count: 1, Log: logr.Discard()}
	for _, step := range []struct {
		why    string
		change func(node *corev1.Node)
		writes int
	}{
		{"label and condition", nil, 2},
		{"nothing has changed", nil, 0},
		{"somebody removes the label", func(node *corev1.Node) { delete(node.Labels, v1alpha1.LabelPasst) }, 1},
		{"or gives it another value", func(node *corev1.Node) { node.Labels[v1alpha1.LabelPasst] = "no" }, 1},
		{"a device is gone", func(*corev1.Node) { remove(t, onMachine(f, Served[3])) }, 1},
		{"KVM is gone, with its label", func(*corev1.Node) { remove(t, onMachine(f, Served[0])) }, 2},
		{"passt cannot run any more", func(*corev1.Node) { write(t, filepath.Join(f.Proc, "sys/user/max_user_namespaces"), "0") }, 2},
		{"which is written once", nil, 0},
	} {
		if step.change != nil {
			node := nodeOf(t, in)
			step.change(node)
			if err := in.Update(t.Context(), node); err != nil {
				t.Fatal(err)
			}
		}
		*writes = 0
		if err := a.reportOnce(t.Context()); err != nil || *writes != step.writes {
			t.Errorf("%s: %d writes, want %d: %v", step.why, *writes, step.writes, err)
		}
	}
	node := nodeOf(t, in)
	if len(node.Status.Conditions) != 2 || node.Status.Conditions[0].Type != corev1.NodeReady || node.Labels[corev1.LabelHostname] != "n" {
		t.Errorf("kubelet's condition and label are gone: %v %v", node.Status.Conditions, node.Labels)
	}
}

// TestMachineTypes: the Node lists the machine types of QEMU. They are read once, a removed annotation is written again, and a QEMU that does not answer is
// reported.
func TestMachineTypes(t *testing.T) {
	f := machine(t)
	in, _ := cluster(t, good)
	emulator := filepath.Join(t.TempDir(), "qemu")
	a := &Agent{Node: "n", Cluster: in, Folders: f, Emulator: emulator, Count: 1, Log: logr.Discard()}
	for _, step := range []struct{ why, script, want, message string }{
		{"no program", "", "", "the machine types of QEMU are unknown: "},
		{"one that fails", "#!/bin/sh\necho broken >&2; exit 1\n", "", "exit status 1 broken"},
		{"one that prints none", "#!/bin/sh\necho Supported machines are:\n", "", "printed 0 machine types"},
		{"QEMU", "#!/bin/sh\necho Supported machines are:\necho 'q35   Standard PC (alias of pc-q35-10.0)'\necho 'pc-q35-10.0   Standard PC'\n",
			"pc-q35-10.0,q35", "nothing is missing"},
		{"the image does not change", "#!/bin/sh\nexit 1\n", "pc-q35-10.0,q35", "nothing is missing"},
	} {
		if step.script != "" {
			if err := os.WriteFile(emulator, []byte(step.script), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := a.reportOnce(t.Context()); err != nil {
			t.Fatal(step.why, err)
		}
		node := nodeOf(t, in)
		if got := node.Annotations["kilnvm.io/machine-types"]; got != step.want || !strings.Contains(guests(node).Message, step.message) ||
			guests(node).Status != corev1.ConditionTrue {
			t.Errorf("%s: annotation '%s', condition %+v", step.why, got, guests(node))
		}
		node.Annotations = map[string]string{"of": "others"}
		if err := in.Update(t.Context(), node); err != nil {
			t.Fatal(err)
		}
	}
	if node := nodeOf(t, in); node.Annotations["of"] != "others" {
		t.Errorf("the annotations of others are gone: %v", node.Annotations)
	}
}

// TestCPU: the Node has a label as long as guests can use /dev/kvm, and then the labels of the CPU stay, which another process writes. Its failure is in the
// condition.
func TestCPU(t *testing.T) {
	const kvm, feature, emulated, failure = "kilnvm.io/kvm", "cpu-feature.kilnvm.io/avx2", "kilnvm.io/cpu-emulated", "kilnvm.io/cpu-failure"
	f := machine(t)
	in, _ := cluster(t, good)
	a := &Agent{Node: "n", Cluster: in, Folders: f, Count: 1, Log: logr.Discard()}
	for _, step := range []struct {
		why    string
		change func(node *corev1.Node)
		want   []string
	}{
		{"the first report", func(*corev1.Node) {}, []string{kvm}},
		{"the CPU is reported", func(node *corev1.Node) { node.Labels[feature], node.Labels["zone"] = "true", "a" }, []string{kvm, feature, "zone"}},
		{"KVM is gone", func(*corev1.Node) { write(t, filepath.Join(f.Proc, "misc"), "200 tun\n") }, []string{"zone"}},
		{"a CPU without KVM is reported", func(node *corev1.Node) { node.Labels[feature], node.Labels[emulated] = "true", "true" },
			[]string{feature, emulated, "zone"}},
	} {
		node := nodeOf(t, in)
		step.change(node)
		node.Annotations = map[string]string{failure: "no\nlibvirt " + step.why}
		if err := in.Update(t.Context(), node); err != nil {
			t.Fatal(err)
		}
		if err := a.reportOnce(t.Context()); err != nil {
			t.Fatal(step.why, err)
		}
		node = nodeOf(t, in)
		delete(node.Labels, corev1.LabelHostname)
		delete(node.Labels, v1alpha1.LabelPasst)
		if got := slices.Sorted(maps.Keys(node.Labels)); !slices.Equal(got, slices.Sorted(slices.Values(step.want))) {
			t.Errorf("%s: labels %v, want %v", step.why, got, step.want)
		}
		if want := "the CPU of guests is unknown: no libvirt " + step.why; !strings.Contains(guests(node).Message, want) || node.Annotations[failure] == "" {
			t.Errorf("%s: %+v, want '%s'", step.why, guests(node), want)
		}
	}
}

// TestTransition: the time of a transition changes with the status, and not with the message.
func TestTransition(t *testing.T) {
	node := &corev1.Node{}
	at := func(minute int) metav1.Time { return metav1.NewTime(time.Date(2026, 11, 1, 0, minute, 0, 0, time.UTC)) }
	for minute, step := range []struct {
		found findings
		since int
	}{
		{findings{}, 0}, {findings{{text: "a"}}, 1}, {findings{{text: "a"}, {text: "b", unknown: true}}, 1}, {findings{{text: "b", unknown: true}}, 3},
	} {
		if !setCondition(node, step.found, at(minute)) || len(node.Status.Conditions) != 1 {
			t.Errorf("minute %d: not written: %v", minute, node.Status.Conditions)
		}
		if got := node.Status.Conditions[0]; got.LastTransitionTime != at(step.since) || got.LastHeartbeatTime != at(minute) {
			t.Errorf("minute %d: %v, want a transition in minute %d", minute, got, step.since)
		}
	}
}

// TestAgent: ready when kubelet has all devices and the Node is written, also after the API server has refused.
func TestAgent(t *testing.T) {
	f := machine(t)
	k := startKubelet(t, f)
	in, _ := cluster(t, good)
	a := &Agent{Node: "n", Cluster: in, Folders: f, Count: 2, Log: logr.Discard()}
	if err := a.Ready(nil); err == nil {
		t.Error("ready before it has begun")
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Start(ctx) }()
	resources := map[string]bool{}
	for range Served {
		resources[next(t, "four registrations", k.asked).ResourceName] = true
	}
	if len(resources) != len(Served) {
		t.Errorf("registered: %v", resources)
	}
	for deadline := time.Now().Add(10 * time.Second); a.Ready(nil) != nil; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(a.Ready(nil))
		}
	}
	cancel()
	if err := next(t, "the end", ended); err != nil {
		t.Error(err)
	}
	// A Node that is not there: the files of the machine are written all the same.
	g := machine(t)
	lost := &Agent{Node: "other", Cluster: in, Folders: g, Count: 2, Log: logr.Discard()}
	if err := lost.reportOnce(t.Context()); crclient.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("want an error that the Node is not found, got %v", err)
	}
	if files, _ := filepath.Glob(filepath.Join(g.Seccomp, "kiln/*")); len(files) != 1 || lost.Ready(nil) == nil {
		t.Errorf("profiles: %v; ready: %v", files, lost.Ready(nil))
	}
}
