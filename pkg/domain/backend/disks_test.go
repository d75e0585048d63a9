package backend_test

import (
	"cmp"
	"fmt"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/test/backends"
	"libvirt.org/go/libvirtxml"
)

// hostSide is what stage 3 sets of a disk.
func hostSide(t *testing.T, disk libvirtxml.DomainDisk) string {
	t.Helper()
	driver := *disk.Driver
	driver.Queues = nil
	only := libvirtxml.DomainDisk{Driver: &driver, Source: disk.Source, BackingStore: disk.BackingStore}
	return partXML(t, libvirtxml.Domain{Devices: &libvirtxml.DomainDeviceList{Disks: []libvirtxml.DomainDisk{only}}})
}

func TestDisk(t *testing.T) {
	t.Parallel()
	file := backend.Volume{Path: "/v/a.img", Format: "raw"}
	block := backend.Volume{Path: "/dev/vg/a", Format: "raw", Block: true}
	cached := backend.Volume{Path: "/v/a.img", Format: "raw", NoDirectIO: true}
	overlay := backend.Volume{Path: "/v/a.qcow2", Format: "qcow2", Backing: "/v/base", BackingFormat: "raw"}
	wrap := func(disk string) string { return "<devices>" + disk + "</devices>" }
	in := func(driver string) string {
		return wrap(`<disk type="file"><driver name="qemu" type="raw" ` + driver + `></driver><source file="/v/a.img"></source></disk>`)
	}
	for _, c := range []struct {
		why, disk string
		volume    backend.Volume
		want      string
	}{
		{"a file bypasses the page cache and gives space back", "disk: {bus: virtio}", file, in(`cache="none" error_policy="stop" discard="unmap"`)},
		{"a block device has native IO", "disk: {bus: virtio}", block,
			wrap(`<disk type="block"><driver name="qemu" type="raw" cache="none" error_policy="stop" io="native" discard="unmap"></driver>` +
				`<source dev="/dev/vg/a"></source></disk>`)},
		{"a file system without O_DIRECT writes through", "disk: {bus: virtio}", cached, in(`cache="writethrough" error_policy="stop" discard="unmap"`)},
		{"the user's cache", "disk: {bus: virtio}, cache: writeback", file, in(`cache="writeback" error_policy="stop" discard="unmap"`)},
		{"the user's IO", "disk: {bus: virtio}, io: threads", file, in(`cache="none" error_policy="stop" io="threads" discard="unmap"`)},
		{"the user's error policy", "disk: {bus: virtio}, errorPolicy: report", file, in(`cache="none" error_policy="report" discard="unmap"`)},
		{"two guests that share a disk must not have a cache between them", "disk: {bus: virtio}, shareable: true, cache: none", file,
			in(`cache="none" error_policy="stop" discard="unmap"`)},
		{"a CD has nothing to give back", "cdrom: {bus: sata}", file, in(`cache="none" error_policy="stop"`)},
		{"an overlay names its base, and that the base has none", "disk: {bus: virtio}", overlay,
			wrap(`<disk type="file"><driver name="qemu" type="qcow2" cache="none" error_policy="stop" discard="unmap"></driver><source file="/v/a.qcow2"></source>` +
				`<backingStore type="file"><format type="raw"></format><source file="/v/base"></source><backingStore></backingStore></backingStore></disk>`)},
	} {
		m := backends.Machine(t,
			"{architecture: amd64, domain: {cpu: {cores: 1}, memory: {guest: 1Gi}, devices: {disks: [{name: a, "+c.disk+
				"}]}}, volumes: [{name: a, emptyDisk: {capacity: 1Gi}}]}")
		m.Bindings.Volumes = map[string]backend.Volume{"a": c.volume}
		same(t, c.why, c.want, hostSide(t, rendered(t, m).Devices.Disks[0]))
	}
}

func TestDiskRefusals(t *testing.T) {
	t.Parallel()
	noDirectIO := map[string]backend.Volume{"a": {Path: "/v/a", Format: "raw", NoDirectIO: true}}
	for _, c := range []struct {
		why, disk           string
		bound               map[string]backend.Volume
		policy, want, words string
	}{
		{"no binding", "disk: {bus: virtio}", nil, "", "FieldValueInvalid spec.volumes[0]", "this host has no binding for this volume"},
		{"a cache that the file system cannot do without", "disk: {bus: virtio}, cache: none",
			noDirectIO, "",
			"FieldValueInvalid spec.domain.devices.disks[0].cache",
			"the storage of volume 'a' does not support O_DIRECT, which cache 'none' needs; use 'writethrough'"},
		{"a disk of two guests on such a file system", "disk: {bus: virtio}, shareable: true, io: native", noDirectIO, "",
			"FieldValueInvalid spec.domain.devices.disks[0].shareable", "which a shareable disk needs"},
		{"native IO on such a file system", "disk: {bus: virtio}, io: native", noDirectIO, "", "FieldValueInvalid spec.domain.devices.disks[0].io",
			"the storage of volume 'a' does not support O_DIRECT, which it needs; use 'threads'"},
		{"an administrator's cache", "disk: {bus: virtio}", noDirectIO, "{disk: {cachePolicy: DirectSync}}",
			"FieldValueInvalid hostProfile.disk.cachePolicy", "use 'Auto', which then is 'WriteThrough'"},
		{"an administrator's native IO", "disk: {bus: virtio}", noDirectIO, "{disk: {ioPolicy: Native}}", "FieldValueInvalid hostProfile.disk.ioPolicy",
			"use 'Threads'"},
		{"the user's cache comes before an administrator's", "disk: {bus: virtio}, cache: writeback", noDirectIO, "{disk: {cachePolicy: None}}", "", ""},
	} {
		t.Run(c.why, func(t *testing.T) {
			m := backends.Machine(t,
				"{architecture: amd64, domain: {cpu: {cores: 1}, memory: {guest: 1Gi}, devices: {disks: [{name: a, "+c.disk+
					"}]}}, volumes: [{name: a, emptyDisk: {capacity: 1Gi}}]}")
			m.Bindings.Volumes = c.bound
			if c.policy != "" {
				m.Policy = backends.PolicyOf(t, m, backends.HostProfile(t, "p", c.policy))
			}
			refusal(t, m, c.want, c.words)
		})
	}
}

// TestEmptyDrive: a CD-ROM drive without a volume is no mistake of the host.
func TestEmptyDrive(t *testing.T) {
	t.Parallel()
	m := backends.Machine(t, "{architecture: amd64, domain: {cpu: {cores: 1}, memory: {guest: 1Gi}, devices: {disks: [{name: a, cdrom: {bus: sata}}]}}}")
	want := `<devices><disk type="file"><driver name="qemu" type="raw"></driver></disk></devices>`
	same(t, "an empty drive has neither source nor cache", want, hostSide(t, rendered(t, m).Devices.Disks[0]))
}

// TestIOThreads: which disk has which thread.
func TestIOThreads(t *testing.T) {
	t.Parallel()
	yes := ", dedicatedIOThread: true"
	for _, c := range []struct {
		why, policy, a, b, c string
		threads              uint
		want                 string
	}{
		{"without a policy there are none", "", "", "", "", 0, "- - -"},
		{"shared: one for all virtio disks", "ioThreadsPolicy: shared,", "", "", "", 1, "1 1 -"},
		{"auto: one each, also for disks that cannot have one, as KubeVirt counts them", "ioThreadsPolicy: auto,", "", "", "", 2, "1 2 -"},
		{"a dedicated one comes after the shared one", "ioThreadsPolicy: shared,", "", yes, "", 2, "1 2 -"},
		{"dedicated disks need no policy", "", yes, "", "", 2, "2 1 -"},
		{"a pool serves all", "ioThreadsPolicy: supplementalPool, ioThreads: {supplementalPoolThreadCount: 3},", "", "", "", 3, "1,2,3 1,2,3 -"},
	} {
		m := backends.Machine(t,
			"{architecture: amd64, domain: {"+c.policy+" cpu: {cores: 1}, memory: {guest: 1Gi}, devices: {disks: [{name: a, disk: {bus: virtio}"+c.a+
				"}, {name: b, disk: {bus: virtio}"+c.b+
				"}, {name: c, disk: {bus: sata}"+c.c+
				"}]}}, volumes: [{name: a, emptyDisk: {capacity: 1Gi}}, {name: b, emptyDisk: {capacity: 1Gi}}, {name: c, emptyDisk: {capacity: 1Gi}}]}")
		dom := rendered(t, m)
		same(t, c.why, c.want, threadsOf(dom.Devices.Disks))
		if dom.IOThreads != c.threads {
			t.Errorf("%s: %d threads, want %d", c.why, dom.IOThreads, c.threads)
		}
	}
}

// threadsOf returns the thread of each disk: its number, the numbers of a pool, or - without a thread.
func threadsOf(disks []libvirtxml.DomainDisk) string {
	var all []string
	for _, disk := range disks {
		list := []string{}
		if id := disk.Driver.IOThread; id != nil {
			list = append(list, fmt.Sprint(*id))
		}
		if pool := disk.Driver.IOThreads; pool != nil {
			for _, thread := range pool.IOThread {
				list = append(list, fmt.Sprint(thread.ID))
			}
		}
		all = append(all, cmp.Or(strings.Join(list, ","), "-"))
	}
	return strings.Join(all, " ")
}
