package pods

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// grows is a VirtualMachine of 2 CPUs and 1 GiB that says what it has. Its pod asks for little CPU.
func grows(name string) string {
	return virtualMachine(name, only("node-1")+`
terminationGracePeriodSeconds: 60
domain:
  cpu: {sockets: 2, cores: 1, threads: 1}
  memory: {guest: 1Gi}
  resources: {requests: {cpu: 50m}}
  firmware: {`+kernelBoot("kiln.grow=1")+`}
  devices: {`+nic+`}
`+podNetwork)
}

var hasLine = regexp.MustCompile(`KILN-HAS (\d+) (\d+) (\d+) \d+ (\d+) \d+\r?\n`)

// has waits until the guest says that it has so many CPUs and links, and at least leastKiB of memory, which a guest takes block by block. It returns the memory
// in KiB, or false if QEMU's emulation has ended the guest.
func (n *tenant) has(vm string, cpus, links, leastKiB int) (kib int, runs bool) {
	n.Helper()
	reader := n.reader()
	n.eventually(fmt.Sprintf("the guest has %d CPUs, %d links and %d KiB", cpus, links, leastKiB), func() (string, bool) {
		log, err := reader.log("guest-" + vm)
		if runs = err == nil; !runs {
			return log, n.emulationFailed(vm)
		}
		all := hasLine.FindAllStringSubmatch(log, -1)
		if len(all) == 0 {
			return "nothing", false
		}
		last := all[len(all)-1]
		kib, _ = strconv.Atoi(last[2])
		return last[0], last[1] == strconv.Itoa(cpus) && last[4] == strconv.Itoa(links) && kib >= leastKiB
	})
	return kib, runs
}

// emulationFailed reports whether QEMU has ended by an assertion of its emulated processors: iotlb_to_section, which looks up the memory of an access. A guest
// with KVM does not call it.
func (n *tenant) emulationFailed(vm string) bool {
	n.Helper()
	crashes := n.kubectl("get", "events", "--field-selector", "reason=Crashed,involvedObject.name="+vm, "-o", "jsonpath={.items[*].message}")
	return strings.Contains(crashes, "iotlb_to_section: Assertion")
}

// TestGrowsLive: a guest that runs gets CPUs and memory when its VM does, and its pod with it. The record does not move, and nothing waits for a restart. What
// the node has no room for waits, and the VMI says so.
func TestGrowsLive(t *testing.T) {
	n := newTenant(t, "grows")
	for attempt := 1; attempt <= 3; attempt++ {
		vm := fmt.Sprintf("grown-%d", attempt)
		if n.growsLive(vm) {
			n.waitsForCapacity(vm)
			return
		}
		t.Log("QEMU's emulation has ended the guest")
		n.kubectl("delete", "vm", vm)
	}
	t.Fatal("QEMU's emulation has ended all guests")
}

// runningSize is what runs of a guest, by its GuestHardware.
const runningSize = "jsonpath={.status.running.vcpus} {.status.running.memoryKiB}"

// patchDomain edits the domain of a VM.
func (n *tenant) patchDomain(vm, domain string) {
	n.Helper()
	n.kubectl("patch", "vm", vm, "--type=merge", "-p", `{"spec": {"template": {"spec": {"domain": `+domain+`}}}}`)
}

// growsLive returns false if QEMU's emulation has ended the guest while it grew.
func (n *tenant) growsLive(vm string) bool {
	n.Helper()
	n.apply(grows(vm))
	n.phase(vm, "Running")
	before, runs := n.has(vm, 2, 1, 1)
	if !runs {
		return false
	}
	const record = "jsonpath={.spec.hardware}"
	recorded, uid := n.kubectl("get", "guesthardware", vm, "-o", record), n.kubectl("get", "pod", "guest-"+vm, "-o", "jsonpath={.metadata.uid}")
	recordIs := func(want string) {
		n.Helper()
		n.eventually("what runs is on record", func() (string, bool) {
			out := n.kubectl("get", "guesthardware", vm, "-o", runningSize)
			return out, out == want
		})
	}
	recordIs("2 1048576")

	n.patchDomain(vm, `{"cpu": {"sockets": 4}, "memory": {"guest": "2Gi"}, "resources": {"requests": {"cpu": "100m"}}}`)
	after, runs := n.has(vm, 4, 1, before+1<<20)
	if !runs {
		return false
	}
	if after-before != 1<<20 {
		n.Errorf("the guest has %d KiB, had %d", after, before)
	}
	recordIs("4 2097152")
	if now := n.kubectl("get", "guesthardware", vm, "-o", record); now != recorded {
		n.Errorf("the record has moved:\n%s\n%s", recorded, now)
	}
	if now := n.kubectl("get", "pod", "guest-"+vm, "-o", "jsonpath={.metadata.uid} {.spec.containers[0].resources.requests.cpu}"); now != uid+" 100m" {
		n.Errorf("the pod is %s, was %s", now, uid)
	}
	if waits := n.kubectl("get", "vm", vm, "-o", `jsonpath={.status.conditions[?(@.type=="RestartRequired")].message}`); waits != "" {
		n.Errorf("a restart is required: %s", waits)
	}
	return true
}

// waitsForCapacity: CPUs that the node cannot hold are not plugged in, and the VMI says why.
func (n *tenant) waitsForCapacity(vm string) {
	n.Helper()
	n.patchDomain(vm, `{"cpu": {"sockets": 5}, "resources": {"requests": {"cpu": "500"}}}`)
	n.eventually("the VMI says why it waits", func() (string, bool) { // in the API server's words, or in kubelet's, by the version of Kubernetes
		out := n.kubectl("get", "vmi", vm, "-o", `jsonpath={.status.conditions[?(@.type=="HotVCPUChange")]}`)
		return out, strings.Contains(out, "didn't have enough")
	})
	if out := n.kubectl("get", "guesthardware", vm, "-o", runningSize); out != "4 2097152" {
		n.Errorf("with a pod that is too small %s runs", out)
	}
}

// TestIgnoredUnplug: a guest without a system keeps the disk that its VM no longer has. VMI and GuestHardware differ, and the VMI says so, until the next cold
// boot: the disk is gone then, and all else has its place.
func TestIgnoredUnplug(t *testing.T) {
	n := newTenant(t, "stubborn")
	n.fileClaim("file")
	const kept, keptVolume = `{"name": "kept", "disk": {"bus": "virtio"}}`, `{"name": "kept", "emptyDisk": {"capacity": "8Mi"}}`
	n.apply(virtualMachine("stubborn", only("node-1")+`
terminationGracePeriodSeconds: 0
domain:
  memory: {guest: 128Mi}
  devices: {autoattachPodInterface: false, disks: [{name: file, disk: {bus: virtio}}, `+kept+`]}
volumes: [{name: file, persistentVolumeClaim: {claimName: file, hotpluggable: true}}, `+keptVolume+`]
`))
	n.phase("stubborn", "Running")
	runs := func() string {
		return n.kubectl("get", "guesthardware", "stubborn", "-o", "jsonpath={.status.running.uid} {.status.running.digest} {.status.running.absent}")
	}
	n.eventually("what runs is on record", func() (string, bool) { return runs(), len(runs()) > len("  ") })
	frontend := func() string {
		return n.kubectl("get", "guestpod", "stubborn", "-o", "jsonpath={.spec.hardware.frontend}")
	}
	before, booted := frontend(), runs()

	n.kubectl("patch", "vm", "stubborn", "--type=merge", "-p",
		`{"spec": {"template": {"spec": {"domain": {"devices": {"disks": [`+kept+`]}}, "volumes": [`+keptVolume+`]}}}}`)
	n.eventually("the VMI says what the guest has not done", func() (string, bool) {
		out := n.kubectl("get", "vmi", "stubborn", "-o", `jsonpath={.spec.volumes[*].name} {.status.conditions[?(@.type=="HotHardwareChange")].message}`)
		return out, strings.HasPrefix(out, "kept ") && strings.Contains(out, "disk 'file'")
	})
	if now := runs(); now != booted {
		t.Errorf("libvirt ran %s, and runs %s", booted, now)
	}

	n.restart("stubborn")
	n.phase("stubborn", "Running")
	// The first start of a recorded CPU asks libvirt for it, and later ones demand it.
	before = strings.Replace(before, `check="partial"`, `check="full"`, 1)
	// The guest has a number of free root ports. With a device less, the last of them, which nothing was on, goes too.
	gone := regexp.MustCompile(`(?s) *<disk [^\n]*\n(?:[^\n]*\n){0,20}?[^\n]*ua-file.*?</disk>\n| *<controller type="pci" index="13".*?</controller>\n`)
	if diff := cmp.Diff(strings.Split(gone.ReplaceAllString(before, ""), "\n"), strings.Split(frontend(), "\n")); diff != "" || !gone.MatchString(before) {
		t.Errorf("after a cold boot the guest differs by more than the disk (-want +got):\n%s", diff)
	}
}
