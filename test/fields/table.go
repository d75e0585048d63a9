package fields

// verdict is what becomes of a leaf that no element shows.
type verdict string

// What becomes of a leaf, besides being mapped to elements of the domain.
const (
	// stage1 leaves decide what other fields of the explicit VMI are.
	stage1 verdict = "stage 1"
	// named leaves are looked up or tie parts of the spec together: the VMI is refused without them.
	named verdict = "mapped"
	// bound leaves say what the launcher puts behind a path of the domain; the path itself is the host's.
	bound verdict = "launcher"
	// pod leaves are the business of the pod, of its network, or of controllers.
	pod verdict = "pod-only"
	// rejected leaves are refused by validation.
	rejected verdict = "rejected"
)

// entry accounts for the leaves that begin with a prefix. The longest prefix of a leaf counts.
type entry struct {
	prefix  string
	verdict verdict
	reason  string
}

var table = []entry{
	{"accessCredentials[]", pod, "of secrets that a pod would mount; the launcher of a bare machine has none, and the guest starts without them"},
	{"architecture", named, "`os/type@arch`, `emulator`, and every default"},
	{"affinity", pod, "the scheduler's"},
	{"dnsConfig", pod, "the DHCP answer of the pod's network"},
	{"dnsPolicy", pod, "the DHCP answer of the pod's network"},
	{"domain.cpu.dedicatedCpuPlacement", named, "`cputune/vcpupin`; what is built on own CPUs is refused without it"},
	{"domain.cpu.features[].name", named, "`cpu/feature@name`"},
	{"domain.devices.autoattachPodInterface", stage1, "whether a guest without networks gets one"},
	{"domain.devices.disks[].changedBlockTracking", pod, "of incremental backups, which Kiln does not make"},
	{"domain.devices.disks[].cdrom.bus", named, "`devices/disk/target@bus`; stage 1 fills it"},
	{"domain.devices.disks[].lun.bus", named, "`devices/disk/target@bus`; stage 1 fills it"},
	{"domain.devices.disks[].name", named, "`devices/disk/alias@name`, and the volume"},
	{"domain.devices.disks[].tag", pod, "a word for the guest's metadata server, which Kiln does not run"},
	{"domain.devices.filesystems[].name", named, "`devices/filesystem/target@dir`, and the volume"},
	{"domain.devices.filesystems[].virtiofs", named, "`devices/filesystem/driver@type`; there is no other kind"},
	{"domain.devices.gpus[].name", named, "`devices/hostdev/alias@name`"},
	{"domain.devices.gpus[].deviceName", bound, "which devices of the host are taken: `devices/hostdev/source`"},
	{"domain.devices.gpus[].claimName", bound, "which devices of the host are taken: `devices/hostdev/source`"},
	{"domain.devices.gpus[].requestName", bound, "which devices of the host are taken: `devices/hostdev/source`"},
	{"domain.devices.gpus[].tag", pod, "a word for the guest's metadata server, which Kiln does not run"},
	{"domain.devices.hostDevices[].name", named, "`devices/hostdev/alias@name`"},
	{"domain.devices.hostDevices[].deviceName", bound, "which devices of the host are taken: `devices/hostdev/source`"},
	{"domain.devices.hostDevices[].claimName", bound, "which devices of the host are taken: `devices/hostdev/source`"},
	{"domain.devices.hostDevices[].requestName", bound, "which devices of the host are taken: `devices/hostdev/source`"},
	{"domain.devices.hostDevices[].tag", pod, "a word for the guest's metadata server, which Kiln does not run"},
	{"domain.devices.inputs[]", named, "`devices/input@type`, `@bus`, `alias@name`"},
	{"domain.devices.interfaces[].binding.name", bound, "the plugin connects the interface: `devices/interface/source`"},
	{"domain.devices.interfaces[].bridge", bound, "a tap or bridge of the host: `devices/interface/source`"},
	{"domain.devices.interfaces[].masquerade", bound, "the host's NAT: `devices/interface/source`"},
	{"domain.devices.interfaces[].passtBinding", bound, "passt: `devices/interface/source`"},
	{"domain.devices.interfaces[].sriov", bound, "a virtual function of the host: `devices/hostdev/source`"},
	{"domain.devices.interfaces[].name", named, "`devices/interface/alias@name`, and the network"},
	{"domain.devices.interfaces[].dhcpOptions", pod, "the DHCP answer of the pod's network"},
	{"domain.devices.interfaces[].portRanges[]", pod, "which ports the pod's network forwards"},
	{"domain.devices.interfaces[].ports[]", pod, "which ports the pod's network forwards"},
	{"domain.devices.interfaces[].tag", pod, "a word for the guest's metadata server, which Kiln does not run"},
	{"domain.devices.interfaces[].macvtap", rejected, "discontinued in v1.3 of the API"},
	{"domain.devices.interfaces[].passt", rejected, "discontinued in v1.3 of the API: passtBinding"},
	{"domain.devices.interfaces[].slirp", rejected, "discontinued in v1.3 of the API"},
	{"domain.devices.logSerialConsole", bound, "the launcher binds a log file to the console, or none"},
	{"domain.devices.sound.name", named, "`devices/sound/alias@name`"},
	{"domain.devices.watchdog.name", named, "`devices/watchdog/alias@name`"},
	{"domain.features.smm.enabled", named, "`features/smm@state`; Secure Boot is refused without it"},
	{"domain.firmware.bootloader.efi.persistent", bound, "whether the launcher keeps the variables of the firmware"},
	{"domain.firmware.kernelBoot.container", bound, "the launcher takes kernel and initrd from the image"},
	{"domain.launchSecurity.sev.attestation", pod, "the guest waits, started paused, until its owner has attested it"},
	{"domain.launchSecurity.snp", named, "`launchSecurity@type`"},
	{"domain.launchSecurity.tdx", named, "`launchSecurity@type`"},
	{"domain.memory.hugepages.pageSize", named, "`memoryBacking/hugepages/page@size`"},
	{"domain.memory.reservedOverhead", pod, "memory of the pod besides the guest's"},
	{"domain.resources.overcommitGuestOverhead", pod, "memory of the pod besides the guest's"},
	{"domain.resources", stage1, "vCPUs and memory of guests that say nothing else; the rest is the pod's"},
	{"evictionStrategy", pod, "what becomes of the guest when its node is drained"},
	{"hostname", bound, "the launcher writes it to the cloud-init disk"},
	{"livenessProbe", pod, "the kubelet's"},
	{"readinessProbe", pod, "the kubelet's"},
	{"networks[].multus", pod, "the pod's network"},
	{"networks[].name", named, "the interface of this name"},
	{"networks[].pod", pod, "addresses inside the pod's network"},
	{"networks[].resourceClaim", pod, "the network driver's claim"},
	{"nodeSelector", pod, "the scheduler's, and the launcher's, which claims guests that fit its node"},
	{"priorityClassName", pod, "the scheduler's"},
	{"resourceClaims[]", pod, "claims of the pod"},
	{"schedulerName", pod, "the scheduler's"},
	{"serviceAccountName", pod, "the pod's account"},
	{"subdomain", pod, "the name of the pod in the cluster's DNS"},
	{"terminationGracePeriodSeconds", pod, "how long the launcher waits for the guest to stop"},
	{"tolerations[]", pod, "the scheduler's"},
	{"topologySpreadConstraints[]", pod, "the scheduler's"},
	{"utilityVolumes[]", rejected, "on creation: they are added to running guests, which Kiln does not serve"},
	{"volumes[].downwardMetrics", named, "a disk of metrics"},
	{"volumes[]", bound,
		"what lies behind `devices/disk/source`. On a bare machine: containerDisk, emptyDisk, hostDisk, cloudInitNoCloud and described claims; " +
			"others are refused at the start"},
}
