package backend_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/render"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// profile is a host profile of YAML: its spec.
func profile(t testing.TB, name, spec string) v1alpha1.HostProfile {
	t.Helper()
	p := v1alpha1.HostProfile{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := yaml.UnmarshalStrict([]byte(spec), &p.Spec); err != nil {
		t.Fatalf("%s: %v", spec, err)
	}
	return p
}

// every is what each field of a profile becomes, for the guest of tuned. also are fields that it needs beside it.
var every = []struct{ field, value, also, want string }{
	{"disk.cachePolicy", "directsync", "", `cache="directsync"`},
	{"disk.ioPolicy", "io_uring", "", `io="io_uring"`},
	{"disk.discard", "ignore", "", `discard="ignore"`},
	{"disk.detectZeroes", "unmap", "", `detect_zeroes="unmap"`},
	{"disk.errorPolicy", "enospace", "", `error_policy="enospace"`},
	{"disk.rerrorPolicy", "report", "", `rerror_policy="report"`},
	{"disk.metadataCacheBytes", "1048576", "", `<metadata_cache><max_size unit="bytes"><![CDATA[1048576]]></max_size></metadata_cache>`},
	{"diskLimits.totalBytesPerSec", "1000", "", `<iotune><total_bytes_sec>1000</total_bytes_sec></iotune>`},
	{"diskLimits.readBytesPerSec", "1000", "", `<read_bytes_sec>1000</read_bytes_sec>`},
	{"diskLimits.writeBytesPerSec", "1000", "", `<write_bytes_sec>1000</write_bytes_sec>`},
	{"diskLimits.totalIopsPerSec", "100", "", `<total_iops_sec>100</total_iops_sec>`},
	{"diskLimits.readIopsPerSec", "100", "", `<read_iops_sec>100</read_iops_sec>`},
	{"diskLimits.writeIopsPerSec", "100", "", `<write_iops_sec>100</write_iops_sec>`},
	{"diskLimits.burstTotalBytesPerSec", "2000", "totalBytesPerSec: 1000", `<total_bytes_sec_max>2000</total_bytes_sec_max></iotune>`},
	{"diskLimits.burstReadBytesPerSec", "2000", "readBytesPerSec: 1000", `<read_bytes_sec_max>2000</read_bytes_sec_max>`},
	{"diskLimits.burstWriteBytesPerSec", "2000", "writeBytesPerSec: 1000", `<write_bytes_sec_max>2000</write_bytes_sec_max>`},
	{"diskLimits.burstTotalIopsPerSec", "200", "totalIopsPerSec: 100", `<total_iops_sec_max>200</total_iops_sec_max>`},
	{"diskLimits.burstReadIopsPerSec", "200", "readIopsPerSec: 100", `<read_iops_sec_max>200</read_iops_sec_max>`},
	{"diskLimits.burstWriteIopsPerSec", "200", "writeIopsPerSec: 100", `<write_iops_sec_max>200</write_iops_sec_max>`},
	{"diskLimits.burstLengthSec", "7", "writeIopsPerSec: 100, burstWriteIopsPerSec: 200", `<write_iops_sec_max_length>7</write_iops_sec_max_length></iotune>`},
	{"diskLimits.sizeIopsBytes", "4096", "totalIopsPerSec: 100", `<size_iops_sec>4096</size_iops_sec>`},
	{"diskLimits.group", "g", "totalIopsPerSec: 100", `<group_name>g</group_name>`},
	{"blkio.weight", "200", "", `<blkiotune><weight>200</weight></blkiotune>`},
	{"blkio.perDevice", "[{path: /dev/null, weight: 300, readBytesPerSec: 1, writeBytesPerSec: 2, readIopsPerSec: 3, writeIopsPerSec: 4}]", "",
		`<device><path>/dev/null</path><weight>300</weight><read_iops_sec>3</read_iops_sec><write_iops_sec>4</write_iops_sec><read_bytes_sec>1</read_bytes_sec><write_bytes_sec>2</write_bytes_sec></device>`},
	{"ioThreads.policy", "shared", "", `<iothreads>1</iothreads>`},
	{"ioThreads.count", "2", "policy: auto", `<iothreads>2</iothreads>`},
	{"ioThreads.pollMaxNs", "0", "policy: shared", `<iothread id="1"><poll max="0"></poll></iothread>`},
	{"ioThreads.poolMin", "1", "policy: shared, poolMax: 4", `<iothread id="1" thread_pool_min="1" thread_pool_max="4">`},
	{"ioThreads.poolMax", "4", "policy: shared", `<iothread id="1" thread_pool_max="4">`},
	{"ioThreads.pin", "6-7", "policy: shared", `<iothreadpin iothread="1" cpuset="6-7">`},
	{"cpu.shares", "2048", "", `<cputune><shares>2048</shares>`},
	{"cpu.periodUs", "100000", "", `<period>100000</period><emulator_period>100000</emulator_period>`},
	{"cpu.quotaUs", "50000", "", `<quota>50000</quota>`},
	{"cpu.emulatorQuotaUs", "60000", "", `<emulator_quota>60000</emulator_quota>`},
	{"cpu.vcpuSched.policy", "rr", "vcpuSched: {priority: 5}", `<vcpusched vcpus="0-1" scheduler="rr" priority="5">`},
	{"cpu.vcpuSched.priority", "9", "vcpuSched: {policy: fifo}", `<vcpusched vcpus="0-1" scheduler="fifo" priority="9">`},
	{"cpu.emulatorCpus", "0-1", "", `<emulatorpin cpuset="0-1">`},
	{"cpu.reservedHostCpus", "'2,6'", "", `<vcpupin vcpu="0" cpuset="3"></vcpupin><vcpupin vcpu="1" cpuset="7">`},
	{"cpu.pinStrategy", "spread", "", `<vcpupin vcpu="0" cpuset="2"></vcpupin><vcpupin vcpu="1" cpuset="3">`},
	{"cpu.allowCellCrossing", "false", "reservedHostCpus: '0,2,4-7'", `refused spec.domain.cpu.dedicatedCpuPlacement`},
	{"cache.l3Kib", "[2048, 0, 4096]", "", `<cachetune vcpus="0-1"><cache id="0" level="3" type="both" size="2048" unit="KiB"></cache><cache id="2" level="3" type="both" size="4096" unit="KiB"></cache></cachetune>`},
	{"cache.memBwPercent", "[0, 30]", "", `<memorytune vcpus="0-1"><node id="1" bandwidth="30"></node></memorytune>`},
	{"memory.hugepagePreference", "[1Gi, 2Mi]", "", `<hugepages><page size="2048" unit="KiB"></page></hugepages>`},
	{"memory.backing", "file", "", `<source type="file">`},
	{"memory.locked", "true", "", `<locked>`},
	{"memory.nosharepages", "true", "", `<nosharepages>`},
	{"memory.allocation", "immediate", "", `<allocation mode="immediate">`},
	{"memory.allocThreads", "4", "", `<allocation threads="4">`},
	{"memory.hardLimitKiB", "4194304", "", `<memtune><hard_limit unit="KiB">4194304</hard_limit></memtune>`},
	{"memory.softLimitKiB", "4194304", "", `<soft_limit unit="KiB">4194304</soft_limit>`},
	{"memory.swapHardLimitKiB", "8388608", "", `<swap_hard_limit unit="KiB">8388608</swap_hard_limit>`},
	{"memory.discard", "true", "", `<discard>`},
	{"numa.mode", "preferred", "", `<numatune><memory mode="preferred" nodeset="1"></memory></numatune>`},
	{"numa.followDevices", "true", "", `<vcpupin vcpu="0" cpuset="0"></vcpupin><vcpupin vcpu="1" cpuset="4">`},
	{"net.vhost", "false", "", `<driver name="qemu">`},
	{"net.inbound.averageKBps", "10", "", `<bandwidth><inbound average="10"></inbound></bandwidth>`},
	{"net.inbound.peakKBps", "20", "inbound: {averageKBps: 10}", `<inbound average="10" peak="20">`},
	{"net.inbound.burstKB", "30", "inbound: {averageKBps: 10}", `<inbound average="10" burst="30">`},
	{"net.outbound.averageKBps", "10", "", `<outbound average="10">`},
	{"net.outbound.peakKBps", "20", "outbound: {averageKBps: 10}", `<outbound average="10" peak="20">`},
	{"net.outbound.burstKB", "30", "outbound: {averageKBps: 10}", `<outbound average="10" burst="30">`},
	{"net.filterRef", "clean-traffic", "", `<filterref filter="clean-traffic">`},
	{"net.trustRx", "false", "", `trustGuestRxFilters="no"`},
	{"net.coalesceFrames", "7", "", `<coalesce><rx><frames max="7"></frames></rx></coalesce>`},
	{"net.isolated", "true", "", `<port isolated="yes">`},
	{"balloon.statsPeriodSec", "3", "", `<stats period="3">`},
	{"rng.source", "/dev/hwrng", "", `<backend model="random">/dev/hwrng</backend>`},
	{"rng.rateBytes", "64", "", `<rate bytes="64">`},
	{"rng.ratePeriodMs", "500", "rateBytes: 64", `<rate bytes="64" period="500">`},
	{"graphics.listen", "127.0.0.1", "", `<graphics type="vnc" port="-1" autoport="yes"><listen type="address" address="127.0.0.1"></listen></graphics>`},
	{"serialLog.dir", "/var/log/guests", "", `<log file="/var/log/guests/default_guest.log" append="on">`},
	{"serialLog.append", "false", "dir: /l", `<log file="/l/default_guest.log" append="off">`},
	{"security.seclabel.type", "none", "", `<seclabel type="none">`},
	{"security.seclabel.model", "dac", "seclabel: {type: none}", `<seclabel type="none" model="dac">`},
	{"security.seclabel.label", "a:b", "seclabel: {type: static, model: dac}", `<label>a:b</label>`},
	{"security.seclabel.relabel", "false", "seclabel: {type: static, model: dac, label: a}", `relabel="no"`},
	{"security.resourcePartition", "/machine/p", "", `<resource><partition>/machine/p</partition></resource>`},
	{"security.vtpmSecret", "5d307ca9-b3ef-428c-8861-06e72d69f223", "", `<encryption secret="5d307ca9-b3ef-428c-8861-06e72d69f223">`},
	{"security.nwfilter", "spoofing", "", `<filterref filter="kiln-`},
	{"pathTemplates.vnc", "'/run/{{.Name}}/vnc'", "", `socket="/run/guest/vnc"`},
	{"pathTemplates.serial", "'/run/{{.Namespace}}/{{.Name}}'", "", `<source mode="bind" path="/run/default/guest">`},
	{"pathTemplates.channel", "'/run/{{.UID}}/{{.Channel}}'", "", `<source mode="bind" path="/run/5f0c1f6e-6d2a-4c7b-9a43-8f3e1d2c7b6a/guest-agent">`},
	{"pathTemplates.nvram", "'/v/{{.Name}}.fd'", "", `>/v/guest.fd</nvram>`},
	{"pathTemplates.swtpm", "'/tpm/{{.Namespace}}/{{.Name}}'", "", `<source type="dir" path="/tpm/default/guest">`},
	{"lifecycle.onCrash", "preserve", "", `<on_crash>preserve</on_crash>`},
	{"lifecycle.coreDump", "false", "", `dumpCore="off"`},
}

// tuned is a guest with something for each field, on a host of two cells.
func tuned(t testing.TB) render.Machine {
	t.Helper()
	m := on(machine(t, `{architecture: amd64, domain: {cpu: {cores: 2, dedicatedCpuPlacement: true}, memory: {guest: 1Gi}, firmware: {bootloader: {efi: {secureBoot: false}}},
 devices: {tpm: {persistent: true}, rng: {}, hostDevices: [{name: fpga, deviceName: example.com/fpga}], disks: [{name: a, disk: {bus: virtio}}, {name: b, disk: {bus: virtio}}, {name: c, disk: {bus: virtio}}],
 interfaces: [{name: default, bridge: {}}]}}, networks: [{name: default, pod: {}}],
 volumes: [{name: a, emptyDisk: {capacity: 1Gi}}, {name: b, emptyDisk: {capacity: 1Gi}}, {name: c, emptyDisk: {capacity: 1Gi}}]}`), twoCells)
	zero := 0
	device := m.Bindings.HostDevs["fpga"]
	device.NUMANode = &zero
	m.Bindings.HostDevs["fpga"] = device
	return m
}

// only is a profile with one field, and those that it needs.
func only(field, value, also string) string {
	names := strings.Split(field, ".")
	text := names[len(names)-1] + ": " + value
	if len(names) == 3 {
		if also != "" {
			_, rest, _ := strings.Cut(also, "{")
			text += ", " + strings.TrimSuffix(rest, "}")
		}
		return names[0] + ": {" + names[1] + ": {" + text + "}}"
	}
	if also != "" {
		text += ", " + also
	}
	return names[0] + ": {" + text + "}"
}

// TestEveryFieldOfAProfile: each has its element, and none changes what the guest sees.
func TestEveryFieldOfAProfile(t *testing.T) {
	t.Parallel()
	plain, errs := render.Domain(tuned(t))
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	without := part(t, *plain.Documents.Domain)
	listed := map[string]bool{}
	for _, c := range every {
		listed[c.field] = true
		m := tuned(t)
		m.Profiles = []v1alpha1.HostProfile{profile(t, "p", "{"+only(c.field, c.value, c.also)+"}")}
		out, errs := render.Domain(m)
		if field, refused := strings.CutPrefix(c.want, "refused "); refused {
			if got := causes(errs); got != "FieldValueInvalid "+field || !strings.Contains(errs[0].Detail, "hostProfile."+c.field) {
				t.Errorf("%s: %v", c.field, errs)
			}
			continue
		}
		if len(errs) > 0 {
			t.Errorf("%s: %v", c.field, errs.ToAggregate())
			continue
		}
		if text := part(t, *out.Documents.Domain); !strings.Contains(text, c.want) {
			t.Errorf("%s: no '%s' in\n%s", c.field, c.want, text)
		}
		if strings.Contains(without, c.want) {
			t.Errorf("%s: '%s' is there without it too", c.field, c.want)
		}
		if out.Record.Digest != plain.Record.Digest {
			t.Errorf("%s changes what the guest sees", c.field)
		}
	}
	for _, field := range leaves(reflect.TypeFor[v1alpha1.HostPolicy](), "") {
		if !listed[field] {
			t.Errorf("%s is in no row: what does it do?", field)
		}
	}
}

// leaves are the paths of all fields that are no structs.
func leaves(kind reflect.Type, at string) (paths []string) {
	for i := range kind.NumField() {
		name, _, _ := strings.Cut(kind.Field(i).Tag.Get("json"), ",")
		if inner := kind.Field(i).Type; inner.Kind() == reflect.Pointer && inner.Elem().Kind() == reflect.Struct {
			paths = append(paths, leaves(inner.Elem(), at+name+".")...)
		} else {
			paths = append(paths, at+name)
		}
	}
	return paths
}
