//go:build kubevirt

package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/vishvananda/netlink"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/kubevirt/pkg/dra/metadata"
	cmdv1 "kubevirt.io/kubevirt/pkg/handler-launcher-com/cmd/v1"
	netcache "kubevirt.io/kubevirt/pkg/network/cache"
	"kubevirt.io/kubevirt/pkg/network/dhcp"
	"kubevirt.io/kubevirt/pkg/virt-launcher/virtwrap/efi"
)

// host has what virt-launcher finds in its pod: firmware, secrets, addresses of devices.
type host struct{ dir string }

func newHost(dir string) (*host, error) {
	for _, name := range []string{
		efi.EFICode, efi.EFIVars, efi.EFICodeAARCH64, efi.EFIVarsAARCH64, efi.EFICodeSecureBoot, efi.EFIVarsSecureBoot,
		efi.EFICodeSEV, efi.EFICodeSNP, efi.EFICodeTDX, efi.EFICodeTDXSecureBoot,
	} {
		if err := putFile(filepath.Join(dir, "firmware", name), name); err != nil {
			return nil, err
		}
	}
	return &host{dir}, nil
}

func putFile(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o600)
}

// writeSecrets writes the Secrets that a VMI names, below their own folder.
func (h *host) writeSecrets(vmi *v1.VirtualMachineInstance) (string, error) {
	dir := filepath.Join(h.dir, "secrets")
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	for _, volume := range vmi.Spec.Volumes {
		for _, file := range []string{"userdata", "networkdata"} {
			if err := putFile(filepath.Join(dir, volume.Name, file), file+" of a secret"); err != nil {
				return "", err
			}
		}
	}
	for _, credential := range vmi.Spec.AccessCredentials {
		if key := credential.SSHPublicKey; key != nil && key.Source.Secret != nil {
			if err := putFile(filepath.Join(dir, key.Source.Secret.SecretName+"-access-cred", "key"), "key of "+key.Source.Secret.SecretName); err != nil {
				return "", err
			}
		}
	}
	return dir, nil
}

// writeClaims writes what drivers of devices say about the claims of a VMI. Each device is a PCI device, and a mediated one where it is a GPU.
func (h *host) writeClaims(vmi *v1.VirtualMachineInstance) (string, error) {
	dir := filepath.Join(h.dir, "claims")
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	requests := map[string]bool{} // whether it is a GPU's
	for _, d := range vmi.Spec.Domain.Devices.GPUs {
		if d.ClaimRequest != nil && d.RequestName != "" {
			requests[d.RequestName] = true
		}
	}
	for _, d := range vmi.Spec.Domain.Devices.HostDevices {
		if d.ClaimRequest != nil && d.RequestName != "" {
			requests[d.RequestName] = false
		}
	}
	for _, n := range vmi.Spec.Networks {
		if n.ResourceClaim != nil && n.ResourceClaim.RequestName != "" {
			requests[n.ResourceClaim.RequestName] = false
		}
	}
	for _, claim := range vmi.Spec.ResourceClaims {
		below := filepath.Join("resourceclaimtemplates", claim.Name)
		if claim.ResourceClaimName != nil && *claim.ResourceClaimName != "" {
			below = filepath.Join("resourceclaims", *claim.ResourceClaimName)
		}
		for name, gpu := range requests {
			raw, err := json.Marshal(describeDevice(name, gpu))
			if err != nil {
				return "", err
			}
			if err := putFile(filepath.Join(dir, below, name, "driver-metadata.json"), string(raw)); err != nil {
				return "", err
			}
		}
	}
	return dir, nil
}

func describeDevice(request string, gpu bool) metadata.DeviceMetadata {
	address, id := "0000:5e:00.0", "8b6c6c0e-9b0f-4f7d-8a3e-0c6f0d3f5b11"
	device := metadata.Device{Driver: "driver", Pool: "pool", Name: request, Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{}}
	if gpu {
		device.Attributes[metadata.MDevUUIDAttribute] = resourcev1.DeviceAttribute{StringValue: &id}
	} else {
		device.Attributes[metadata.PCIBusIDAttribute] = resourcev1.DeviceAttribute{StringValue: &address}
	}
	return metadata.DeviceMetadata{
		TypeMeta: metav1.TypeMeta{APIVersion: metadata.APIVersionV1Alpha1, Kind: "DeviceMetadata"},
		Requests: []metadata.DeviceMetadataRequest{{Name: request, Devices: []metadata.Device{device}}},
	}
}

// hostTopology returns one NUMA node with 32 CPUs and 2Mi pages.
func hostTopology() (*cmdv1.Topology, []int) {
	cell, set := &cmdv1.Cell{
		Memory: &cmdv1.Memory{Amount: 64 << 20, Unit: "KiB"}, Pages: []*cmdv1.Pages{{Count: 16384, Unit: "KiB", Size: 2048}},
	}, []int{}
	for i := range 32 {
		cell.Cpus = append(cell.Cpus, &cmdv1.CPU{Id: uint32(i), Siblings: []uint32{uint32(i &^ 1), uint32(i | 1)}})
		set = append(set, i)
	}
	return &cmdv1.Topology{NumaCells: []*cmdv1.Cell{cell}}, set
}

// pool gives each device another address of a format, or none. Devices that a claim gives have no resource.
type pool struct {
	format string
	given  int
}

func (p *pool) Pop(resource string) (string, error) {
	if p.format == "" || resource == "" {
		return "", nil
	}
	p.given++
	return fmt.Sprintf(p.format, p.given), nil
}

// links are the interfaces of a pod: each is there, and has addresses of both families.
type links struct{}

func (links) LinkByName(name string) (netlink.Link, error) {
	return &netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Name: name, MTU: 1500, HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 9, 9}}}, nil
}

func (links) StartDHCP(*netcache.DHCPConfig, string, *v1.DHCPOptions) error { return nil }
func (links) HasIPv4GlobalUnicastAddress(string) (bool, error)              { return true, nil }
func (links) HasIPv6GlobalUnicastAddress(string) (bool, error)              { return true, nil }

// lease is what virt-launcher's DHCP server answers on an interface.
type lease struct {
	Interface, Config string
	Options           *v1.DHCPOptions
}

// recorder keeps leases in place of a server.
type recorder struct {
	dhcp.ConfigGenerator
	name   string
	leases *[]lease
}

func (r recorder) EnsureDHCPServerStarted(_ string, config netcache.DHCPConfig, options *v1.DHCPOptions) error {
	*r.leases = append(*r.leases, lease{r.name, config.String(), options})
	return nil
}

// bridged is the configuration of a bridge, whose addresses come from the pod at run time.
type bridged struct{ subdomain string }

func (b bridged) Generate() (*netcache.DHCPConfig, error) {
	return &netcache.DHCPConfig{Subdomain: b.subdomain}, nil
}

// direct is a file system that can be written to without the page cache.
type direct struct{}

func (direct) CheckBlockDevice(string) (bool, error) { return true, nil }
func (direct) CheckFile(string) (bool, error)        { return true, nil }
