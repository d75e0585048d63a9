package backend_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/render"
	"github.com/kilnvm/kiln/test/backends"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// generated is how many random starts the properties are tried on; PROPS=n asks for more.
func generated() int {
	if n, err := strconv.Atoi(os.Getenv("PROPS")); err == nil {
		return n
	}
	return 300
}

// kinds of guests, each with something that stage 3 completes. DISKS and NICS are filled at random.
var kinds = []string{
	"{architecture: amd64, domain: {cpu: {cores: 2, threads: 2}, memory: {guest: 1Gi}, devices: {rng: {}, DISKS, NICS}}}",
	"{architecture: amd64, domain: {ioThreadsPolicy: auto, firmware: {bootloader: {efi: {secureBoot: false}}}, cpu: {cores: 4}, memory: {guest: 1Gi}, " +
		"devices: {tpm: {persistent: true}, DISKS, NICS}}}",
	"{architecture: amd64, domain: {cpu: {cores: 2, dedicatedCpuPlacement: true, isolateEmulatorThread: true}, memory: {guest: 1Gi}, " +
		"devices: {networkInterfaceMultiqueue: true, DISKS, NICS}}}",
	"{architecture: amd64, domain: {ioThreadsPolicy: supplementalPool, ioThreads: {supplementalPoolThreadCount: 2}, cpu: {cores: 4, threads: 2, " +
		"dedicatedCpuPlacement: true, numa: {guestMappingPassthrough: {}}}, memory: {guest: 1Gi, hugepages: {pageSize: 2Mi}}, devices: {DISKS, NICS}}}",
	"{architecture: amd64, domain: {cpu: {cores: 1}, memory: {guest: 512Mi}, devices: {filesystems: [{name: fs, virtiofs: {}}], " +
		"hostDevices: [{name: fpga, deviceName: example.com/fpga}], DISKS, NICS}}}",
	"{architecture: arm64, domain: {cpu: {cores: 2, model: max}, memory: {guest: 1Gi}, devices: {rng: {}, DISKS, NICS}}}",
	"{architecture: s390x, domain: {cpu: {cores: 2, model: max}, memory: {guest: 1Gi}, devices: {rng: {}, DISKS, NICS}}}",
}

func pick[T any](r *rand.Rand, list ...T) T { return list[r.IntN(len(list))] }

// randomGuest has up to four disks and three interfaces.
func randomGuest(t testing.TB, r *rand.Rand) render.Machine {
	var disks, nics, networks, volumes []string
	for i := range r.IntN(5) {
		more := pick(r, "", "", ", cache: none", ", cache: writeback", ", io: threads", ", shareable: true, cache: none", ", blockSize: {matchVolume: {}}",
			", dedicatedIOThread: true")
		disks = append(disks, fmt.Sprintf("{name: d%d, disk: {bus: %s}%s}", i, pick(r, "virtio", "virtio", "scsi"), more))
		volumes = append(volumes, fmt.Sprintf("{name: d%d, emptyDisk: {capacity: 1Gi}}", i))
	}
	for i := range r.IntN(4) {
		nics = append(nics, fmt.Sprintf("{name: n%d, bridge: {}}", i))
		networks = append(networks, fmt.Sprintf("{name: n%d, multus: {networkName: net%d}}", i, i))
	}
	spec := strings.NewReplacer("DISKS", "disks: ["+strings.Join(disks, ", ")+"]", "NICS", "interfaces: ["+strings.Join(nics, ", ")+"]").Replace(pick(r, kinds...))
	return backends.Machine(t, strings.TrimSuffix(spec, "}")+", volumes: ["+strings.Join(volumes, ", ")+"], networks: ["+strings.Join(networks, ", ")+"]}")
}

// randomHost gives the guest another host: nodes, versions, firmware, and what it binds.
func randomHost(r *rand.Rand, m render.Machine) render.Machine {
	var layout [][][]int
	for id := range 1 + r.IntN(3) {
		var cores [][]int
		for core := range 1 + r.IntN(6) {
			cores = append(cores, pick(r, []int{id*100 + core}, []int{id*100 + core, id*100 + core + 50}))
		}
		layout = append(layout, cores)
	}
	m = backends.OnHost(m, backends.NUMANodes(layout...))
	m.Host.VirtTypes = pick(r, []string{"kvm", "qemu"}, []string{"qemu"})
	m.Host.LibvirtVersion, m.Host.QEMUVersion = pick(r, "", "9.0.0", "11.2.0"), pick(r, "", "7.2.0", "10.0.0")
	m.Bindings.VNC, m.Bindings.Serial, m.Bindings.NVRAM = fmt.Sprintf("/run/%d/vnc", r.IntN(9)), pick(r, "", "/run/serial"), fmt.Sprintf("/v/%d.fd", r.IntN(9))
	volumes := map[string]backend.Volume{}
	for name := range m.Bindings.Volumes {
		block := uint(pick(r, 512, 4096))
		volumes[name] = pick(r, backend.Volume{Path: "/v/" + name, Format: "raw", NoDirectIO: r.IntN(4) == 0},
			backend.Volume{Path: "/dev/" + name, Format: "raw", Block: true},
			backend.Volume{Path: "/v/" + name, Format: "qcow2", Backing: "/b", BackingFormat: "raw"})
		v := volumes[name]
		v.LogicalBlock, v.PhysicalBlock, v.DiscardGranularity = block, block, block
		volumes[name] = v
	}
	nics := map[string]backend.NIC{}
	for name := range m.Bindings.NICs {
		nics[name] = backend.NIC{Kind: pick(r, "user", "bridge", "tap", "direct", "vhostuser"), Device: "x" + name, Socket: "/run/" + name}
	}
	devices := map[string]backend.HostDev{}
	for name, device := range m.Bindings.HostDevs {
		node := r.IntN(3)
		device.Address, device.NUMANode = fmt.Sprintf("0000:%02x:00.0", r.IntN(200)), &node
		devices[name] = device
	}
	m.Bindings.Volumes, m.Bindings.NICs, m.Bindings.HostDevs = volumes, nics, devices
	return m
}

// randomProfiles are up to three, each with up to three fields of the table of all.
func randomProfiles(t testing.TB, r *rand.Rand) (profiles []v1alpha1.HostProfile) {
	for i := range r.IntN(4) {
		for range 1 + r.IntN(3) {
			c := backends.ProfileFields[r.IntN(len(backends.ProfileFields))]
			p := backends.HostProfile(t, fmt.Sprintf("p%d", len(profiles)), c.Spec())
			p.Spec.Priority = int32(i*10 + len(profiles))
			profiles = append(profiles, p)
		}
	}
	return profiles
}

// TestProperties: for any host, bindings and profiles, stage 3 gives the same twice, is done when it is done, and leaves the guest
// as it is; a guest that booted once is the same everywhere that takes it.
func TestProperties(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	if s, err := strconv.ParseUint(os.Getenv("SEED"), 10, 64); err == nil {
		seed = s
	}
	r := rand.New(rand.NewPCG(seed, 0))
	rendered, refused := 0, 0
	for range generated() {
		guest := randomGuest(t, r)
		first := randomHost(r, guest)
		booted, errs := render.Domain(first) // without profiles
		if len(errs) > 0 {
			refused++
			never(t, errs)
			continue
		}
		for range 3 {
			next := first
			if r.IntN(2) == 0 {
				next = randomHost(r, guest)
				next.Frozen = &booted.Record
			}
			if next.Policy, errs = render.Policy(next, randomProfiles(t, r)); len(errs) > 0 {
				never(t, errs)
				refused++
				continue
			}
			if again(t, next, booted) {
				rendered++
			} else {
				refused++
			}
		}
		if t.Failed() {
			break
		}
	}
	t.Logf("SEED=%d: %d starts rendered, %d refused", seed, rendered, refused)
	if rendered < refused/10 || rendered == 0 {
		t.Error("so few starts are rendered that the properties say nothing")
	}
}

// never fails on errors that are ours: stage 3 altered the guest.
func never(t *testing.T, errs field.ErrorList) {
	t.Helper()
	for _, err := range errs {
		if err.Type == field.ErrorTypeInternal {
			t.Errorf("an error of our own: %v", err)
		}
	}
}

// again starts a guest that has booted, and tells whether it was rendered.
func again(t *testing.T, m render.Machine, booted render.Result) bool {
	t.Helper()
	one, errs := render.Domain(m)
	two, same := render.Domain(m)
	if causes(errs) != causes(same) || fmt.Sprint(errs) != fmt.Sprint(same) {
		t.Errorf("refused for other reasons the second time: %v, %v", errs, same)
	}
	if len(errs) > 0 {
		never(t, errs)
		return false
	}
	text := partXML(t, *one.Documents.Domain)
	if text != partXML(t, *two.Documents.Domain) {
		t.Errorf("another domain the second time:\n%s\n%s", text, partXML(t, *two.Documents.Domain))
	}
	if one.Record.Digest != booted.Record.Digest || abi.Digest(one.Documents.Domain) != booted.Record.Digest {
		t.Errorf("the guest sees another machine: %q", abi.Changes(booted.Frontend, one.Documents.Domain))
	}
	done, errs := backend.Render(backend.Input{Frontend: one.Documents.Domain, VMI: m.VMI, Host: m.Host, Bindings: m.Bindings, Policy: m.Policy})
	if len(errs) > 0 {
		t.Errorf("its own result is refused: %v", errs.ToAggregate())
	} else if got := partXML(t, *done.Domain); got != text {
		t.Errorf("stage 3 changes its own result:\n%s\n%s", text, got)
	}
	return true
}
