package backends

import (
	"strings"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/render"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// HostProfile returns the host profile with a spec, which is given as YAML.
func HostProfile(t testing.TB, name, spec string) v1alpha1.HostProfile {
	t.Helper()
	p := v1alpha1.HostProfile{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := yaml.UnmarshalStrict([]byte(spec), &p.Spec); err != nil {
		t.Fatalf("%s: %v", spec, err)
	}
	return p
}

// PolicyOf returns the policy of one profile for a guest and its host.
func PolicyOf(t testing.TB, m render.Machine, profile v1alpha1.HostProfile) v1alpha1.HostPolicy {
	t.Helper()
	policy, errs := render.Policy(m, []v1alpha1.HostProfile{profile})
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	return policy
}

// ProfileField is a field of a host profile and what it becomes in the domain of the guest of Tuned.
type ProfileField struct {
	// Field is its path in the spec, and Value its YAML. Also is the YAML of fields that it requires besides.
	Field, Value, Also string
	// Want is a part of the domain, or 'refused FIELD' if the guest is refused.
	Want string
}

// ProfileFields has each field of a host profile.
var ProfileFields = []ProfileField{
	{"disk.cachePolicy", "DirectSync", "", `cache="directsync"`},
	{"disk.ioPolicy", "IOUring", "", `io="io_uring"`},
	{"disk.discard", "Ignore", "", `discard="ignore"`},
	{"disk.detectZeroes", "Unmap", "", `detect_zeroes="unmap"`},
	{"disk.errorPolicy", "Enospace", "", `error_policy="enospace"`},
	{"disk.readErrorPolicy", "Report", "", `rerror_policy="report"`},
	{"disk.metadataCacheSize", "1Mi", "", `<metadata_cache><max_size unit="bytes"><![CDATA[1048576]]></max_size></metadata_cache>`},
	{"diskLimits.totalBytesPerSecond", "1k", "", `<iotune><total_bytes_sec>1000</total_bytes_sec></iotune>`},
	{"diskLimits.readBytesPerSecond", "1000", "", `<read_bytes_sec>1000</read_bytes_sec>`},
	{"diskLimits.writeBytesPerSecond", "1000", "", `<write_bytes_sec>1000</write_bytes_sec>`},
	{"diskLimits.totalIOPS", "100", "", `<total_iops_sec>100</total_iops_sec>`},
	{"diskLimits.readIOPS", "100", "", `<read_iops_sec>100</read_iops_sec>`},
	{"diskLimits.writeIOPS", "100", "", `<write_iops_sec>100</write_iops_sec>`},
	{"diskLimits.burstTotalBytesPerSecond", "2000", "totalBytesPerSecond: 1000", `<total_bytes_sec_max>2000</total_bytes_sec_max></iotune>`},
	{"diskLimits.burstReadBytesPerSecond", "2000", "readBytesPerSecond: 1000", `<read_bytes_sec_max>2000</read_bytes_sec_max>`},
	{"diskLimits.burstWriteBytesPerSecond", "2000", "writeBytesPerSecond: 1000", `<write_bytes_sec_max>2000</write_bytes_sec_max>`},
	{"diskLimits.burstTotalIOPS", "200", "totalIOPS: 100", `<total_iops_sec_max>200</total_iops_sec_max>`},
	{"diskLimits.burstReadIOPS", "200", "readIOPS: 100", `<read_iops_sec_max>200</read_iops_sec_max>`},
	{"diskLimits.burstWriteIOPS", "200", "writeIOPS: 100", `<write_iops_sec_max>200</write_iops_sec_max>`},
	{"diskLimits.burstLengthSeconds", "7", "writeIOPS: 100, burstWriteIOPS: 200", `<write_iops_sec_max_length>7</write_iops_sec_max_length></iotune>`},
	{"diskLimits.operationSize", "4Ki", "totalIOPS: 100", `<size_iops_sec>4096</size_iops_sec>`},
	{"diskLimits.group", "g", "totalIOPS: 100", `<group_name>g</group_name>`},
	{"blockIO.weight", "200", "", `<blkiotune><weight>200</weight></blkiotune>`},
	{"blockIO.perDevice", "[{path: /dev/null, weight: 300, readBytesPerSecond: 1, writeBytesPerSecond: 2, readIOPS: 3, writeIOPS: 4}]", "",
		`<device><path>/dev/null</path><weight>300</weight><read_iops_sec>3</read_iops_sec><write_iops_sec>4</write_iops_sec><read_bytes_sec>1</read_bytes_sec>` +
			`<write_bytes_sec>2</write_bytes_sec></device>`},
	{"ioThreads.policy", "Shared", "", `<iothreads>1</iothreads>`},
	{"ioThreads.count", "2", "policy: Auto", `<iothreads>2</iothreads>`},
	{"ioThreads.pollMaxNanoseconds", "0", "policy: Shared", `<iothread id="1"><poll max="0"></poll></iothread>`},
	{"ioThreads.poolMin", "1", "policy: Shared, poolMax: 4", `<iothread id="1" thread_pool_min="1" thread_pool_max="4">`},
	{"ioThreads.poolMax", "4", "policy: Shared", `<iothread id="1" thread_pool_max="4">`},
	{"ioThreads.cpus", "6-7", "policy: Shared", `<iothreadpin iothread="1" cpuset="6-7">`},
	{"cpu.shares", "2048", "", `<cputune><shares>2048</shares>`},
	{"cpu.periodMicroseconds", "100000", "", `<period>100000</period><emulator_period>100000</emulator_period>`},
	{"cpu.quotaMicroseconds", "50000", "", `<quota>50000</quota>`},
	{"cpu.emulatorQuotaMicroseconds", "60000", "", `<emulator_quota>60000</emulator_quota>`},
	{"cpu.vcpuScheduler.policy", "RoundRobin", "vcpuScheduler: {priority: 5}", `<vcpusched vcpus="0-1" scheduler="rr" priority="5">`},
	{"cpu.vcpuScheduler.priority", "9", "vcpuScheduler: {policy: FIFO}", `<vcpusched vcpus="0-1" scheduler="fifo" priority="9">`},
	{"cpu.emulatorCPUs", "0-1", "", `<emulatorpin cpuset="0-1">`},
	{"cpu.reservedHostCPUs", "'2,6'", "", `<vcpupin vcpu="0" cpuset="3"></vcpupin><vcpupin vcpu="1" cpuset="7">`},
	{"cpu.pinStrategy", "Spread", "", `<vcpupin vcpu="0" cpuset="2"></vcpupin><vcpupin vcpu="1" cpuset="3">`},
	{"cpu.allowNUMANodeCrossing", "false", "reservedHostCPUs: '0,2,4-7'", `refused spec.domain.cpu.dedicatedCpuPlacement`},
	{"cache.l3Sizes", "[2Mi, 0, 4095.5Ki]", "",
		`<cachetune vcpus="0-1"><cache id="0" level="3" type="both" size="2048" unit="KiB"></cache>` +
			`<cache id="2" level="3" type="both" size="4096" unit="KiB"></cache></cachetune>`},
	{"cache.memoryBandwidthPercents", "[0, 30]", "", `<memorytune vcpus="0-1"><node id="1" bandwidth="30"></node></memorytune>`},
	{"memory.hugePageSizes", "[1Gi, 2Mi]", "", `<hugepages><page size="2048" unit="KiB"></page></hugepages>`},
	{"memory.backing", "File", "", `<source type="file">`},
	{"memory.locked", "true", "", `<locked>`},
	{"memory.disablePageMerging", "true", "", `<nosharepages>`},
	{"memory.allocation", "Immediate", "", `<allocation mode="immediate">`},
	{"memory.allocationThreads", "4", "", `<allocation threads="4">`},
	{"memory.hardLimit", "4Gi", "", `<memtune><hard_limit unit="KiB">4194304</hard_limit></memtune>`},
	{"memory.softLimit", "4294967295", "", `<soft_limit unit="KiB">4194304</soft_limit>`},
	{"memory.swapHardLimit", "8Gi", "", `<swap_hard_limit unit="KiB">8388608</swap_hard_limit>`},
	{"memory.discard", "true", "", `<discard>`},
	{"numa.mode", "Preferred", "", `<numatune><memory mode="preferred" nodeset="1"></memory></numatune>`},
	{"numa.followDevices", "true", "", `<vcpupin vcpu="0" cpuset="0"></vcpupin><vcpupin vcpu="1" cpuset="4">`},
	{"net.vhost", "false", "", `<driver name="qemu">`},
	{"net.inbound.averageBytesPerSecond", "10k", "", `<bandwidth><inbound average="10"></inbound></bandwidth>`},
	{"net.inbound.peakBytesPerSecond", "19001", "inbound: {averageBytesPerSecond: 10k}", `<inbound average="10" peak="20">`},
	{"net.inbound.burstSize", "30Ki", "inbound: {averageBytesPerSecond: 10k}", `<inbound average="10" burst="30">`},
	{"net.outbound.averageBytesPerSecond", "10k", "", `<outbound average="10">`},
	{"net.outbound.peakBytesPerSecond", "19001", "outbound: {averageBytesPerSecond: 10k}", `<outbound average="10" peak="20">`},
	{"net.outbound.burstSize", "30Ki", "outbound: {averageBytesPerSecond: 10k}", `<outbound average="10" burst="30">`},
	{"net.filterRef", "clean-traffic", "", `<filterref filter="clean-traffic">`},
	{"net.trustRx", "false", "", `trustGuestRxFilters="no"`},
	{"net.coalesceFrames", "7", "", `<coalesce><rx><frames max="7"></frames></rx></coalesce>`},
	{"net.isolated", "true", "", `<port isolated="yes">`},
	{"balloon.statsPeriodSeconds", "3", "", `<stats period="3">`},
	{"rng.source", "/dev/hwrng", "", `<backend model="random">/dev/hwrng</backend>`},
	{"rng.bytesPerPeriod", "64", "", `<rate bytes="64">`},
	{"rng.periodMilliseconds", "500", "bytesPerPeriod: 64", `<rate bytes="64" period="500">`},
	{"graphics.listen", "127.0.0.1", "", `<graphics type="vnc" port="-1" autoport="yes"><listen type="address" address="127.0.0.1"></listen></graphics>`},
	{"serialLog.dir", "/var/log/guests", "", `<log file="/var/log/guests/default_guest.log" append="on">`},
	{"serialLog.append", "false", "dir: /l", `<log file="/l/default_guest.log" append="off">`},
	{"security.secLabel.type", "None", "", `<seclabel type="none">`},
	{"security.secLabel.model", "DAC", "secLabel: {type: None}", `<seclabel type="none" model="dac">`},
	{"security.secLabel.label", "a:b", "secLabel: {type: Static, model: DAC}", `<label>a:b</label>`},
	{"security.secLabel.relabel", "false", "secLabel: {type: Static, model: DAC, label: a}", `relabel="no"`},
	{"security.resourcePartition", "/machine/p", "", `<resource><partition>/machine/p</partition></resource>`},
	{"security.vtpmSecret", "5d307ca9-b3ef-428c-8861-06e72d69f223", "", `<encryption secret="5d307ca9-b3ef-428c-8861-06e72d69f223">`},
	{"security.nwFilter", "AntiSpoofing", "", `<filterref filter="kiln-`},
	{"pathTemplates.vnc", "'/run/{{.Name}}/vnc'", "", `socket="/run/guest/vnc"`},
	{"pathTemplates.serial", "'/run/{{.Namespace}}/{{.Name}}'", "", `<source mode="bind" path="/run/default/guest">`},
	{"pathTemplates.channel", "'/run/{{.UID}}/{{.Channel}}'", "", `<source mode="bind" path="/run/5f0c1f6e-6d2a-4c7b-9a43-8f3e1d2c7b6a/guest-agent">`},
	{"pathTemplates.nvram", "'/v/{{.Name}}.fd'", "", `>/v/guest.fd</nvram>`},
	{"pathTemplates.swtpm", "'/tpm/{{.Namespace}}/{{.Name}}'", "", `<source type="dir" path="/tpm/default/guest">`},
	{"lifecycle.onCrash", "Preserve", "", `<on_crash>preserve</on_crash>`},
	{"lifecycle.coreDump", "false", "", `dumpCore="off"`},
}

// Tuned returns a guest with something for each field, on a host of two nodes.
func Tuned(t testing.TB) render.Machine {
	t.Helper()
	m := OnHost(Machine(t, `{architecture: amd64, domain: {cpu: {cores: 2, dedicatedCpuPlacement: true}, memory: {guest: 1Gi},
   firmware: {bootloader: {efi: {secureBoot: false}}},
 devices: {tpm: {persistent: true}, rng: {}, hostDevices: [{name: fpga, deviceName: example.com/fpga}],
   disks: [{name: a, disk: {bus: virtio}}, {name: b, disk: {bus: virtio}}, {name: c, disk: {bus: virtio}}],
 interfaces: [{name: default, bridge: {}}]}}, networks: [{name: default, pod: {}}],
 volumes: [{name: a, emptyDisk: {capacity: 1Gi}}, {name: b, emptyDisk: {capacity: 1Gi}}, {name: c, emptyDisk: {capacity: 1Gi}}]}`), TwoNodes)
	zero := 0
	device := m.Bindings.HostDevs["fpga"]
	device.NUMANode = &zero
	m.Bindings.HostDevs["fpga"] = device
	return m
}

// Spec returns the YAML of a spec that has the field, and the fields that it requires.
func (f ProfileField) Spec() string {
	names := strings.Split(f.Field, ".")
	text := names[len(names)-1] + ": " + f.Value
	if len(names) == 3 {
		if f.Also != "" {
			_, rest, _ := strings.Cut(f.Also, "{")
			text += ", " + strings.TrimSuffix(rest, "}")
		}
		return "{" + names[0] + ": {" + names[1] + ": {" + text + "}}}"
	}
	if f.Also != "" {
		text += ", " + f.Also
	}
	return "{" + names[0] + ": {" + text + "}}"
}
