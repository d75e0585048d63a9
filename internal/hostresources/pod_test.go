package hostresources

import (
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/pod"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
)

// mounted is a pod with files by their paths, which is served slirp. A name that ends in '->' is a link to its content.
func mounted(t *testing.T, files map[string]string) *Pod {
	t.Helper()
	p := &Pod{Root: t.TempDir(), Network: pod.Slirp, CPUs: []int{2, 3}}
	for name, content := range files {
		name, link := strings.CutSuffix(name, "->")
		file := filepath.Join(p.Root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		write := func() error { return os.WriteFile(file, []byte(content), 0o644) }
		if link {
			write = func() error { return os.Symlink(content, file) }
		}
		if err := write(); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// having is a VMI with one disk of a volume.
func having(source v1.VolumeSource) *v1.VirtualMachineInstance {
	vmi := &v1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web.one", UID: "1d9c2f0e-0000-4000-8000-000000000001"}}
	vmi.Spec.Domain.Devices.Disks = []v1.Disk{{Name: "data"}}
	vmi.Spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: source}}
	return vmi
}

func claimOf(name string) v1.VolumeSource {
	claim := &v1.PersistentVolumeClaimVolumeSource{}
	claim.ClaimName = name
	return v1.VolumeSource{PersistentVolumeClaim: claim}
}

// sized reports capacity and request of the claim.
func sized(vmi *v1.VirtualMachineInstance, capacity, request string) *v1.VirtualMachineInstance {
	info := &v1.PersistentVolumeClaimInfo{Capacity: corev1.ResourceList{}, Requests: corev1.ResourceList{}}
	for text, list := range map[*string]corev1.ResourceList{&capacity: info.Capacity, &request: info.Requests} {
		if *text != "" {
			list[corev1.ResourceStorage] = resource.MustParse(*text)
		}
	}
	vmi.Status.VolumeStatus = []v1.VolumeStatus{{Name: "data", PersistentVolumeClaimInfo: info}}
	return vmi
}

// TestPodClaim: the disk of a file system is made once, has the size that the claim asked for, and is raw whatever it contains.
func TestPodClaim(t *testing.T) {
	const folder = "/volumes/data/"
	for _, c := range []struct {
		why               string
		files             map[string]string
		capacity, request string
		bytes             int64
		refused           string
	}{
		{"a new disk", map[string]string{folder + ".keep": ""}, "5Mi", "3Mi", 3 << 20, ""},
		{"a claim that got less than it asked for", map[string]string{folder + ".keep": ""}, "2Mi", "3Mi", 2 << 20, ""},
		{"a size that is no whole number of blocks", map[string]string{folder + ".keep": ""}, "", "1000001", 999424, ""},
		{"a disk that is there", map[string]string{folder + "disk.img": "QFI\xfb, says the guest"}, "5Mi", "3Mi", 20, ""},
		{"more than there is", map[string]string{folder + ".keep": ""}, "", "1Ei", 0, "its claim asked for"},
		{"no mount", nil, "", "1Mi", 0, "is not mounted"},
		{"a link out", map[string]string{folder + "disk.img->": "/etc/passwd"}, "", "1Mi", 0, "cannot be served"},
		{"a link to another volume", map[string]string{folder + "disk.img->": "../other/disk.img", "/volumes/other/disk.img": "x"}, "", "1Mi", 0, "cannot be served"},
		{"a link of its own", map[string]string{folder + "disk.img->": "real.img", folder + "real.img": "1234"}, "", "1Mi", 4, ""},
		{"a folder", map[string]string{folder + "disk.img/x": ""}, "", "1Mi", 0, "not a regular file"},
	} {
		t.Run(c.why, func(t *testing.T) {
			p := mounted(t, c.files)
			vmi := sized(having(claimOf("claim")), c.capacity, c.request)
			bound, errs := p.Bind(t.Context(), vmi)
			refused(t, c.why, c.refused, errs.ToAggregate())
			if c.refused != "" {
				if len(errs) != 1 || errs[0].Field != "spec.volumes[0]" {
					t.Errorf("errors are %v, want one at the volume", errs)
				}
				return
			}
			volume := bound.Volumes["data"]
			info, err := os.Stat(volume.Path)
			if err != nil || info.Size() != c.bytes {
				t.Fatalf("the disk has %d bytes (%v), want %d", info.Size(), err, c.bytes)
			}
			if volume.Format != "raw" || volume.Block || volume.Backing != "" {
				t.Errorf("the disk is bound as %+v, want a raw file", volume)
			}
		})
	}
}

// TestPodBlockClaim: a block device of the pod is bound as one, and no other device is.
func TestPodBlockClaim(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: it makes device nodes")
	}
	for mode, want := range map[uint32]string{unix.S_IFBLK: "", unix.S_IFCHR: "not a block device"} {
		p := mounted(t, map[string]string{"/dev/volumes/.keep": ""})
		device := filepath.Join(p.Root, "dev/volumes/data")
		if err := unix.Mknod(device, mode|0o600, int(unix.Mkdev(7, 0))); err != nil {
			t.Fatal(err)
		}
		found, err := p.claimDisk(having(claimOf("claim")), "data")
		refused(t, "device", want, err)
		if wants := (backend.Volume{Path: device, Format: "raw", Block: true}); want == "" && !cmp.Equal(wants, found.Volume) {
			t.Errorf("the device is bound as %+v, want %+v", found.Volume, wants)
		}
		over, err := p.ephemeralOverlay("data", "/overlay")
		refused(t, "overlay over the device", want, err)
		if want == "" && (over.Backing != device || !over.BackingBlock || over.BackingFormat != "raw") {
			t.Errorf("the overlay is %+v", over.Volume)
		}
	}
}

// TestPodEphemeral: an overlay needs a disk, which it never makes.
func TestPodEphemeral(t *testing.T) {
	source := v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "claim"}}}
	empty := mounted(t, map[string]string{"/volumes/data/.keep": ""})
	_, errs := empty.Bind(t.Context(), having(source))
	refused(t, "no disk", "does not exist", errs.ToAggregate())
	p := mounted(t, map[string]string{"/volumes/data/disk.img": strings.Repeat("x", 4096)})
	bound, errs := p.Bind(t.Context(), having(source))
	refused(t, "a disk", "", errs.ToAggregate())
	volume := bound.Volumes["data"]
	if volume.Backing != filepath.Join(p.Root, "volumes/data/disk.img") || volume.BackingFormat != "raw" || volume.Format != "qcow2" {
		t.Errorf("bound as %+v, want an overlay over the raw file", volume)
	}
}

// TestPodImage: a containerDisk is the only disk in /disk of its tree, or the one that path says, and never a file of the pod.
func TestPodImage(t *testing.T) {
	disk := strings.Repeat("x", 4096)
	for _, c := range []struct {
		why, path, want string
		files           map[string]string
	}{
		{"the only disk", "", "", map[string]string{"disk/a.img": disk}},
		{"a disk without a suffix", "", "", map[string]string{"disk/cirros": disk}},
		{"a disk beside a text", "", "", map[string]string{"disk/a.qcow2": disk, "disk/README": ""}},
		{"a path", "/other/b", "", map[string]string{"disk/a.img": disk, "other/b": disk}},
		{"two disks", "", "has 2 disks", map[string]string{"disk/a.img": disk, "disk/b.img": disk}},
		{"no disk", "", "does not exist", map[string]string{"else": ""}},
		{"a link out", "", "cannot be served", map[string]string{"disk/a.img->": "/etc/passwd", "disk/.x": ""}},
		{"a path out", "/../../../etc/passwd", "does not exist", map[string]string{"disk/a.img": disk}},
	} {
		files := map[string]string{}
		for name, content := range c.files {
			files[path.Join("/volumes/data", name)] = content
		}
		if c.why == "a link out" {
			c.path = "disk/a.img"
		}
		p := mounted(t, files)
		bound, errs := p.Bind(t.Context(), having(v1.VolumeSource{ContainerDisk: &v1.ContainerDiskSource{Image: "demo:1", Path: c.path}}))
		refused(t, c.why, c.want, errs.ToAggregate())
		if volume := bound.Volumes["data"]; c.want == "" && (volume.Format != "qcow2" || !strings.HasPrefix(volume.Backing, p.Root+"/volumes/data/")) {
			t.Errorf("%s: bound as %+v, want an overlay over the image", c.why, volume)
		}
	}
}

// TestPodNetworks: each binding of the pod network is served by what the cluster chose; a bridge on a network of Multus is a tap.
func TestPodNetworks(t *testing.T) {
	onPod := v1.NetworkSource{Pod: &v1.PodNetwork{}}
	multus := v1.NetworkSource{Multus: &v1.MultusNetwork{NetworkName: "lan"}}
	instead := v1.NetworkSource{Multus: &v1.MultusNetwork{NetworkName: "lan", Default: true}}
	bridge := v1.InterfaceBindingMethod{Bridge: &v1.InterfaceBridge{}}
	masquerade := v1.InterfaceBindingMethod{Masquerade: &v1.InterfaceMasquerade{}}
	for _, c := range []struct {
		why     string
		served  pod.Network
		network v1.NetworkSource
		binding v1.InterfaceBindingMethod
		want    backend.NIC
		refused string
	}{
		{"masquerade by passt", pod.Passt, onPod, masquerade, backend.NIC{Kind: "passt"}, ""},
		{"bridge by slirp", pod.Slirp, onPod, bridge, backend.NIC{Kind: "user"}, ""},
		{"passt", pod.Passt, onPod, v1.InterfaceBindingMethod{PasstBinding: &v1.InterfacePasstBinding{}}, backend.NIC{Kind: "passt"}, ""},
		{"a network instead", pod.Passt, instead, bridge, backend.NIC{Kind: "passt"}, ""},
		{"a tap", pod.Passt, multus, bridge, backend.NIC{Kind: "tap", Device: pod.PodInterface("net")}, ""},
		{"masquerade elsewhere", pod.Passt, multus, masquerade, backend.NIC{}, "not supported in a pod"},
		{"sriov", pod.Passt, onPod, v1.InterfaceBindingMethod{SRIOV: &v1.InterfaceSRIOV{}}, backend.NIC{}, "neither a resource nor a request of a claim"},
	} {
		p := mounted(t, nil)
		p.Network, p.OpenFiles = c.served, 2*pod.MostPort
		vmi := &v1.VirtualMachineInstance{}
		vmi.UID = "1d9c2f0e-0000-4000-8000-000000000001"
		vmi.Spec.Networks = []v1.Network{{Name: "net", NetworkSource: c.network}}
		vmi.Spec.Domain.Devices.Interfaces = []v1.Interface{{Name: "net", InterfaceBindingMethod: c.binding}}
		bound, errs := p.Bind(t.Context(), vmi)
		refused(t, c.why, c.refused, errs.ToAggregate())
		if diff := cmp.Diff(c.want, bound.NICs["net"]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.why, diff)
		}
	}
}

// TestPodOpenFiles: passt forwards the lower ports only where the container may not open a file for each. Ports that are listed need few.
func TestPodOpenFiles(t *testing.T) {
	for _, c := range []struct {
		why     string
		limit   uint64
		ports   []v1.Port
		last    uint
		refused string
	}{
		{"all ports, and enough files", 2 * pod.MostPort, nil, 0, ""},
		{"all ports, and a file too few", 2*pod.MostPort - 1, nil, 64510, ""},
		{"all ports, and the limit of many machines", 20000, nil, 8976, ""},
		{"all ports, and files for the well-known ones", 4096, nil, 1024, ""},
		{"all ports, and too few files", 4095, nil, 0, "list the ports of the interface"},
		{"one port, and few files", 1024, []v1.Port{{Port: 22}}, 0, ""},
		{"all ports, and an unknown limit", 0, nil, 0, ""},
	} {
		p := mounted(t, nil)
		p.Network, p.OpenFiles = pod.Passt, c.limit
		vmi := &v1.VirtualMachineInstance{}
		vmi.UID = "1d9c2f0e-0000-4000-8000-000000000001"
		vmi.Spec.Networks = []v1.Network{*v1.DefaultPodNetwork()}
		nic := *v1.DefaultMasqueradeNetworkInterface()
		nic.Ports = c.ports
		vmi.Spec.Domain.Devices.Interfaces = []v1.Interface{nic}
		bound, errs := p.Bind(t.Context(), vmi)
		refused(t, c.why, c.refused, errs.ToAggregate())
		if got := bound.NICs[nic.Name].LastPort; got != c.last {
			t.Errorf("%s: ports up to %d are forwarded, want %d", c.why, got, c.last)
		}
	}
}

// TestPodState: persistent state is in the folder that outlives the pod, and other state never is.
func TestPodState(t *testing.T) {
	yes := true
	vmi := &v1.VirtualMachineInstance{}
	vmi.UID = "1d9c2f0e-0000-4000-8000-000000000001"
	vmi.Spec.Domain.Firmware = &v1.Firmware{Bootloader: &v1.Bootloader{EFI: &v1.EFI{Persistent: &yes}}}
	vmi.Spec.Domain.Devices.TPM = &v1.TPMDevice{}
	vmi.Spec.Domain.CPU = &v1.CPU{Cores: 2, DedicatedCPUPlacement: true}
	_, errs := mounted(t, nil).Bind(t.Context(), vmi)
	refused(t, "without the folder", "is not mounted", errs.ToAggregate())
	if len(errs) != 1 || errs[0].Field != "spec.domain.firmware.bootloader.efi.persistent" {
		t.Errorf("errors are %v", errs)
	}
	p := mounted(t, map[string]string{pod.State + "/.keep": ""})
	bound, errs := p.Bind(t.Context(), vmi)
	refused(t, "with it", "", errs.ToAggregate())
	if bound.NVRAM != filepath.Join(p.Root, pod.State, "nvram.fd") || strings.HasPrefix(bound.TPMState, filepath.Join(p.Root, pod.State)) {
		t.Errorf("variables are in '%s', the TPM in '%s'", bound.NVRAM, bound.TPMState)
	}
	for name, want := range map[string]string{".keep": "", "nvram.fd": "raw", "nvram.fd.qcow2": "qcow2", "nvram.fd.vmdk": ""} {
		bound, _ := mounted(t, map[string]string{filepath.Join(pod.State, name): "QFI\xfb, says the guest"}).Bind(t.Context(), vmi)
		if bound.NVRAMFormat != want {
			t.Errorf("variables in '%s' have format '%s', want '%s'", name, bound.NVRAMFormat, want)
		}
	}
	if !cmp.Equal(bound.CPUs, p.CPUs) {
		t.Errorf("dedicated CPUs are %v, want the CPUs of the pod", bound.CPUs)
	}
	p.CPUs = []int{0, 1, 2, 3} // no static CPU manager
	_, errs = p.Bind(t.Context(), vmi)
	refused(t, "with the node's CPUs", "spec.domain.cpu.dedicatedCpuPlacement", errs.ToAggregate())
}
