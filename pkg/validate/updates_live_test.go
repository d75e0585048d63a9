package validate_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/validate"
	"k8s.io/apimachinery/pkg/api/equality"
	v1 "kubevirt.io/api/core/v1"
)

// liveVMI is a guest that may grow, with cards, a disk of each kind, and a CD-ROM whose medium was taken out.
const liveVMI = `
metadata: {annotations: {kilnvm.io/ejected: '[{"name":"tools","containerDisk":{"image":"tools:1"}}]'}}
spec:
  architecture: amd64
  domain:
    cpu: {sockets: 2, cores: 1, threads: 1, maxSockets: 8}
    memory: {guest: 1Gi, maxGuest: 4Gi}
    resources: {requests: {cpu: 500m, memory: 1Gi}}
    devices:
      interfaces: [{name: default, bridge: {}}, {name: blue, bridge: {}}, {name: function, sriov: {}}, {name: gone, bridge: {}, state: absent}]
      disks:
      - {name: cd, cdrom: {bus: sata}}
      - {name: tools, cdrom: {bus: sata}}
      - {name: root, disk: {bus: virtio}}
      - {name: data, disk: {bus: virtio}}
      - {name: slow, disk: {bus: sata}}
      - {name: made, disk: {bus: scsi}}
  volumes:
  - {name: cd, containerDisk: {image: 'cd:1'}}
  - {name: root, persistentVolumeClaim: {claimName: root}}
  - {name: data, persistentVolumeClaim: {claimName: data, hotpluggable: true}}
  - {name: slow, persistentVolumeClaim: {claimName: slow, hotpluggable: true}}
  - {name: made, dataVolume: {name: made, hotpluggable: true}}
`

// without removes a disk and its volume.
func without(name string) func(*v1.VirtualMachineInstanceSpec) {
	return func(s *v1.VirtualMachineInstanceSpec) {
		var disks []v1.Disk
		for _, d := range s.Domain.Devices.Disks {
			if d.Name != name {
				disks = append(disks, d)
			}
		}
		s.Domain.Devices.Disks = disks
		withoutVolume(name)(s)
	}
}

func withoutVolume(name string) func(*v1.VirtualMachineInstanceSpec) {
	return func(s *v1.VirtualMachineInstanceSpec) {
		var volumes []v1.Volume
		for _, v := range s.Volumes {
			if v.Name != name {
				volumes = append(volumes, v)
			}
		}
		s.Volumes = volumes
	}
}

// TestLiveSpec: what a guest gets while it runs, and its nearest neighbours that wait for a restart.
func TestLiveSpec(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		why    string
		change func(*v1.VirtualMachineInstanceSpec)
		live   bool
	}{
		{"more sockets", fragment(t, "domain: {cpu: {sockets: 4}}"), true},
		{"all sockets", fragment(t, "domain: {cpu: {sockets: 8}}"), true},
		{"too many sockets", fragment(t, "domain: {cpu: {sockets: 9}}"), false},
		{"fewer sockets", fragment(t, "domain: {cpu: {sockets: 1}}"), false},
		{"sockets and cores", fragment(t, "domain: {cpu: {sockets: 4, cores: 2}}"), false},
		{"sockets with their request", fragment(t, "domain: {cpu: {sockets: 4}, resources: {requests: {cpu: '1'}}}"), true},
		{"sockets with a smaller request", fragment(t, "domain: {cpu: {sockets: 4}, resources: {requests: {cpu: 100m}}}"), false},
		{"sockets with a new limit", fragment(t, "domain: {cpu: {sockets: 4}, resources: {limits: {cpu: '4'}}}"), false},
		{"a request alone", fragment(t, "domain: {resources: {requests: {cpu: '1'}}}"), false},
		{"more memory", fragment(t, "domain: {memory: {guest: 2Gi}}"), true},
		{"all memory", fragment(t, "domain: {memory: {guest: 4Gi}}"), true},
		{"too much memory", fragment(t, "domain: {memory: {guest: 5Gi}}"), false},
		{"less memory", fragment(t, "domain: {memory: {guest: 512Mi}}"), false},
		{"a request of memory alone", fragment(t, "domain: {resources: {requests: {memory: 2Gi}}}"), false},
		{"memory that Linux does not take", fragment(t, "domain: {memory: {guest: 1090Mi}}"), false},
		{"a link", func(s *v1.VirtualMachineInstanceSpec) {
			s.Domain.Devices.Interfaces[1].State = v1.InterfaceStateLinkDown
		}, true},
		{"the link of the first card", func(s *v1.VirtualMachineInstanceSpec) {
			s.Domain.Devices.Interfaces[0].State = v1.InterfaceStateLinkDown
		}, true},
		{"a card", func(s *v1.VirtualMachineInstanceSpec) { s.Domain.Devices.Interfaces[1].State = v1.InterfaceStateAbsent }, true},
		{"a card that comes back", func(s *v1.VirtualMachineInstanceSpec) { s.Domain.Devices.Interfaces[3].State = "" }, false},
		{"a virtual function", func(s *v1.VirtualMachineInstanceSpec) { s.Domain.Devices.Interfaces[2].State = v1.InterfaceStateAbsent }, false},
		{"another model", func(s *v1.VirtualMachineInstanceSpec) { s.Domain.Devices.Interfaces[1].Model = "e1000" }, false},
		{"an ejected medium", withoutVolume("cd"), true},
		{"a medium that was ejected", func(s *v1.VirtualMachineInstanceSpec) {
			s.Volumes = append(s.Volumes, v1.Volume{Name: "tools", VolumeSource: v1.VolumeSource{ContainerDisk: &v1.ContainerDiskSource{Image: "tools:1"}}})
		}, true},
		{"a medium that the pod has not", func(s *v1.VirtualMachineInstanceSpec) {
			s.Volumes = append(s.Volumes, v1.Volume{Name: "tools", VolumeSource: v1.VolumeSource{ContainerDisk: &v1.ContainerDiskSource{Image: "tools:2"}}})
		}, false},
		{"another medium", func(s *v1.VirtualMachineInstanceSpec) { s.Volumes[0].ContainerDisk.Image = "cd:2" }, false},
		{"a disk that is hotpluggable", without("data"), true},
		{"a disk of a DataVolume that is hotpluggable", without("made"), true},
		{"a disk on a bus that lets none go", without("slow"), false},
		{"a disk that is not hotpluggable", without("root"), false},
		{"the volume of a disk", withoutVolume("data"), false},
		{"a host name", fragment(t, "hostname: other"), false},
	} {
		runs := object[v1.VirtualMachineInstance](t, liveVMI)
		before, next := runs.DeepCopy(), runs.DeepCopy()
		test.change(&next.Spec)
		got := validate.LiveSpec(runs, next, v1alpha1.LiveHardware{VCPUs: 2, MemoryKiB: 1 << 20})
		if live := equality.Semantic.DeepEqual(got, next.Spec); live != test.live {
			t.Errorf("%s: live is %t\n%s", test.why, live, cmp.Diff(next.Spec, got))
		}
		if !test.live && !equality.Semantic.DeepEqual(got, runs.Spec) {
			t.Errorf("%s: half of it is live\n%s", test.why, cmp.Diff(runs.Spec, got))
		}
		if diff := cmp.Diff(before, runs); diff != "" {
			t.Fatalf("%s: what runs has changed\n%s", test.why, diff)
		}
	}
}

// TestTakenBack: a growth that waits for the pod goes back as far as what libvirt runs; one that waits for the guest does not.
func TestTakenBack(t *testing.T) {
	t.Parallel()
	least := v1alpha1.LiveHardware{VCPUs: 2, MemoryKiB: 1 << 20}
	for _, test := range []struct {
		why, reason, change string
		live                bool
	}{
		{"sockets", v1alpha1.ReasonPodResizePending, "cpu: {sockets: 2}", true},
		{"some sockets", v1alpha1.ReasonFailedResize, "cpu: {sockets: 3}", true},
		{"more sockets than the guest asks for", v1alpha1.ReasonPodResizePending, "cpu: {sockets: 5}", true},
		{"sockets that the guest has", v1alpha1.ReasonPodResizePending, "cpu: {sockets: 1}", false},
		{"sockets that the pod may have by now", v1alpha1.ReasonPodResizeInProgress, "cpu: {sockets: 2}", false},
		{"sockets that the pod has", v1alpha1.ReasonGuestAsked, "cpu: {sockets: 2}", false},
		{"no sockets", v1alpha1.ReasonPodResizePending, "cpu: {sockets: 0}", false},
		{"sockets with their request", v1alpha1.ReasonPodResizePending, "cpu: {sockets: 2}, resources: {requests: {cpu: 250m}}", true},
		{"sockets with more of a request", v1alpha1.ReasonPodResizePending, "cpu: {sockets: 2}, resources: {requests: {cpu: '1'}}", false},
		{"memory", v1alpha1.ReasonPodResizePending, "memory: {guest: 1Gi}", true},
		{"some memory", v1alpha1.ReasonPodResizePending, "memory: {guest: 1152Mi}", true},
		{"memory that the guest has", v1alpha1.ReasonPodResizePending, "memory: {guest: 896Mi}", false},
		{"memory that the pod has", v1alpha1.ReasonGuestAsked, "memory: {guest: 1Gi}", false},
	} {
		runs := object[v1.VirtualMachineInstance](t, liveVMI, inSpec(t, "domain: {cpu: {sockets: 4}, memory: {guest: 2Gi}}"))
		for _, kind := range []v1.VirtualMachineInstanceConditionType{v1.VirtualMachineInstanceVCPUChange, v1.VirtualMachineInstanceMemoryChange} {
			runs.Status.Conditions = append(runs.Status.Conditions, v1.VirtualMachineInstanceCondition{Type: kind, Status: "True", Reason: test.reason})
		}
		next := object[v1.VirtualMachineInstance](t, liveVMI, inSpec(t, "domain: {cpu: {sockets: 4}, memory: {guest: 2Gi}}"),
			inSpec(t, "domain: {"+test.change+"}"))
		want := runs.Spec
		if test.live {
			want = next.Spec
		}
		if diff := cmp.Diff(want, validate.LiveSpec(runs, next, least)); diff != "" {
			t.Errorf("%s, %s (-want +got)\n%s", test.why, test.reason, diff)
		}
		others := runs.DeepCopy() // the other resource waits alone
		if others.Status.Conditions = runs.Status.Conditions[1:]; next.Spec.Domain.CPU.Sockets == runs.Spec.Domain.CPU.Sockets {
			others.Status.Conditions = runs.Status.Conditions[:1]
		}
		if live := equality.Semantic.DeepEqual(validate.LiveSpec(others, next, least), next.Spec); live != (next.Spec.Domain.CPU.Sockets == 5) {
			t.Errorf("%s, when the other resource waits: live is %t", test.why, live)
		}
		runs.Status.Conditions[0].Status, runs.Status.Conditions[1].Status = "False", "False"
		if live := equality.Semantic.DeepEqual(validate.LiveSpec(runs, next, least), next.Spec); live != (next.Spec.Domain.CPU.Sockets == 5) {
			t.Errorf("%s, when nothing waits: live is %t", test.why, live)
		}
	}
}

// fragment changes a spec by YAML.
func fragment(t *testing.T, text string) func(*v1.VirtualMachineInstanceSpec) {
	t.Helper()
	return func(s *v1.VirtualMachineInstanceSpec) {
		*s = object[v1.VirtualMachineInstance](t, liveVMI, inSpec(t, text)).Spec
	}
}

// TestEjected: the annotation has what was taken out and not put back.
func TestEjected(t *testing.T) {
	t.Parallel()
	runs := object[v1.VirtualMachineInstance](t, liveVMI)
	next := runs.DeepCopy()
	withoutVolume("cd")(&next.Spec)
	if got := validate.Ejected(runs, next); got != `[{"name":"tools","containerDisk":{"image":"tools:1"}},{"name":"cd","containerDisk":{"image":"cd:1"}}]` {
		t.Errorf("after one more was taken out: %s", got)
	}
	next = runs.DeepCopy()
	next.Spec.Volumes = append(next.Spec.Volumes, v1.Volume{Name: "tools"})
	if got := validate.Ejected(runs, next); got != "" {
		t.Errorf("after it was put back: %s", got)
	}
	runs.Annotations = map[string]string{"kilnvm.io/ejected": "no list"}
	if got := validate.Ejected(runs, runs); got != "" {
		t.Errorf("of what is no list: %s", got)
	}
}
