package hostresources

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/test/explicit"
	v1 "kubevirt.io/api/core/v1"
)

const lunOfClaim = hostClaim + `{lun: {path: /dev/disk/by-path/pci-0000:05:00.0-fc-0x5006016844602198-lun-0, ` +
	`adapter: {parent: scsi_host1, wwnn: 20000000c9831b4b, wwpn: 10000000c9831b4b}}}`

// lunOf is the volume that a claim's file describes.
func lunOf(t *testing.T, file string) backend.Volume {
	t.Helper()
	volume, err := describedBy(t, file)
	if err != nil {
		t.Fatal(err)
	}
	return volume
}

func describedBy(t *testing.T, file string) (backend.Volume, error) {
	t.Helper()
	host, _ := testHost(t)
	if err := os.WriteFile(filepath.Join(host.Claims.dir, "shop", "data.yaml"), []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	found, err := host.hostClaimVolume("shop", "data")
	return found.Volume, err
}

func TestClaimsOfLUNs(t *testing.T) {
	t.Parallel()
	const adapter = "adapter: {parent: scsi_host1, wwnn: 20000000c9831b4b, wwpn: 10000000c9831b4b}"
	for _, c := range []struct{ why, file, want string }{
		{"a disk that others have", hostClaim + "{lun: {path: /dev/sda, " + adapter + "}}", "below /dev/disk"},
		{"out of the folder", hostClaim + "{lun: {path: /dev/disk/../sda, " + adapter + "}}", "below /dev/disk"},
		{"no adapter", hostClaim + "{lun: {path: /dev/disk/by-path/x}}", "must have a parent"},
		{"an invalid WWPN", hostClaim + "{lun: {path: /dev/disk/by-path/x, adapter: {parent: scsi_host1, wwnn: 20000000c9831b4b, wwpn: host}}}",
			"16 hexadecimal digits"},
		{"two at once", hostClaim + "{network: {protocol: nbd}, lun: {path: /dev/disk/by-path/x, " + adapter + "}}", "exactly one of"},
		{"nothing", hostClaim + "{encrypted: true}", "exactly one of"},
		{"a mistyped field", hostClaim + "{network: {protocol: nbd}, encryped: true}", `unknown field "encryped"`},
		{"no kind", "spec: {network: {protocol: nbd}}", "must have apiVersion 'kilnvm.io/v1alpha1' and kind 'HostClaim', and has '' and ''"},
		{"another version", strings.Replace(lunOfClaim, "v1alpha1", "v1", 1), "has 'kilnvm.io/v1' and 'HostClaim'"},
		{"another kind", "apiVersion: v1\nkind: PersistentVolumeClaim\nspec: {}", "has 'v1' and 'PersistentVolumeClaim'"},
	} {
		if volume, err := describedBy(t, c.file); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %+v, %v; want '%s'", c.why, volume, err, c.want)
		}
	}
}

// Two LUNs behind one adapter need it once.
func TestAdapterOfTwoLUNs(t *testing.T) {
	t.Parallel()
	vmi := explicit.WithClaim(t)
	vmi.Spec.Volumes = append(vmi.Spec.Volumes, v1.Volume{Name: "log", VolumeSource: v1.VolumeSource{EmptyDisk: &v1.EmptyDiskSource{}}})
	vmi.Spec.Domain.Devices.Disks = append(vmi.Spec.Domain.Devices.Disks, v1.Disk{Name: "log", DiskDevice: v1.DiskDevice{Disk: &v1.DiskTarget{Bus: "virtio"}}})
	bindings := backend.AssumedBindings(vmi)
	bindings.Volumes["data"], bindings.Volumes["log"] = lunOf(t, lunOfClaim), lunOf(t, strings.Replace(lunOfClaim, "lun-0", "lun-1", 1))
	all := explicit.Documents(t, vmi, bindings)
	if len(all.NodeDevices) != 1 {
		t.Errorf("%d adapters, want one", len(all.NodeDevices))
	}
	if got := all.Domain.Devices.Disks[1].Source.Block; got == nil || !strings.HasSuffix(got.Dev, "lun-1") {
		t.Errorf("the second disk is of %+v", got)
	}
}
