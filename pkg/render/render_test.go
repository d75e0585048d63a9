package render

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"
)

// TestBlockSizesOfVolumes: the record keeps what was the volume's, not what the user wrote, and the host's libvirt decides whether
// discards can have a granularity.
func TestBlockSizesOfVolumes(t *testing.T) {
	t.Parallel()
	memory := resource.MustParse("1Gi")
	vmi := &v1.VirtualMachineInstance{}
	vmi.Name, vmi.Namespace, vmi.UID = "guest", "default", "5f0c1f6e-6d2a-4c7b-9a43-8f3e1d2c7b6a"
	vmi.Spec.Architecture = "amd64"
	vmi.Spec.Domain.Memory = &v1.Memory{Guest: &memory}
	for _, name := range []string{"matched", "written"} {
		vmi.Spec.Domain.Devices.Disks = append(vmi.Spec.Domain.Devices.Disks,
			v1.Disk{Name: name, DiskDevice: v1.DiskDevice{Disk: &v1.DiskTarget{Bus: v1.DiskBusVirtio}}})
		vmi.Spec.Volumes = append(vmi.Spec.Volumes, v1.Volume{Name: name, VolumeSource: v1.VolumeSource{EmptyDisk: &v1.EmptyDiskSource{Capacity: memory}}})
	}
	vmi.Spec.Domain.Devices.Disks[0].BlockSize = &v1.BlockSize{MatchVolume: &v1.FeatureState{}}
	vmi.Spec.Domain.Devices.Disks[1].BlockSize = &v1.BlockSize{Custom: &v1.CustomBlockSize{Logical: 512, Physical: 1024}}
	explicit, verdict := admit.VMI(vmi, admit.Input{Cluster: config.Default()})
	if !verdict.Allowed() {
		t.Fatal(verdict.Errors.ToAggregate())
	}
	for libvirt, discard := range map[string]uint{"": 8192, "9.0.0": 0, "10.0.0": 8192} {
		m := Machine{VMI: explicit, Defaults: config.Default().Frontend, Host: backend.Assumed("amd64"), Bindings: backend.AssumedBindings(explicit)}
		m.Host.LibvirtVersion = libvirt
		m.Bindings.Volumes["matched"] = backend.Volume{Path: "/v", Format: "raw", LogicalBlock: 4096, PhysicalBlock: 4096, DiscardGranularity: 8192}
		rendered, errs := Domain(m)
		if len(errs) > 0 {
			t.Fatal(errs.ToAggregate())
		}
		sizes := rendered.Record.BlockSizes
		if len(sizes) != 1 || sizes["matched"].Logical != 4096 || sizes["matched"].Physical != 4096 || sizes["matched"].Discard != discard {
			t.Errorf("libvirt '%s': recorded %v, want the volume's with discards of %d", libvirt, sizes, discard)
		}
	}
}

// TestFieldsOfALaterVersion: the record of a boot has the fields that a later version recorded, and the record of new hardware has none.
func TestFieldsOfALaterVersion(t *testing.T) {
	t.Parallel()
	m := recordingMachines(t)[0]
	first, errs := Domain(m)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	later := first.Record
	later.SchemaVersion, later.Unknown = v1alpha1.HardwareRecordVersion+1, map[string]json.RawMessage{"cache": json.RawMessage(`"EPYC"`)}
	m.Frozen = &later
	second, errs := Domain(m)
	if diff := cmp.Diff(later, second.Record); diff != "" || len(errs) > 0 {
		t.Errorf("%v\n%s", errs, diff)
	}
	if first.Record.SchemaVersion > v1alpha1.HardwareRecordVersion || first.Record.Unknown != nil {
		t.Errorf("%+v", first.Record)
	}
}
