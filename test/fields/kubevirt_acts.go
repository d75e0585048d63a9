package fields

// inKubeVirt are leaves on which KubeVirt's code acts where the answers do not show it: in virt-handler, in the guest agent, in files that virt-launcher makes.
// Each is needed, or the test of the table fails. The nightly test looks for the words in the file of KubeVirt.
var inKubeVirt = []struct{ prefix, verdict, file, words string }{
	{"accessCredentials[].sshPublicKey.propagationMethod.qemuGuestAgent.users[]", Served,
		"pkg/virt-launcher/virtwrap/access-credentials/access_credentials.go", "QemuGuestAgent.Users"},
	{"domain.cpu.realtime.mask", Served, "pkg/hypervisor/kvm/realtime.go", "Realtime.Mask"},
	{"domain.devices.autoattachInputDevice", Served, "pkg/virt-controller/watch/vm/vm.go", "AutoattachInputDevice"}, // of VMIs of VirtualMachines
	{"domain.devices.disks[].blockSize.matchVolume", Served, "pkg/virt-launcher/virtwrap/converter/converter.go", "BlockSize.MatchVolume"},
	{"domain.devices.gpus[].tag", Served, "pkg/virt-launcher/virtwrap/manager.go", "dev.Tag"},
	{"domain.devices.hostDevices[].tag", Served, "pkg/virt-launcher/virtwrap/manager.go", "dev.Tag"},
	{"domain.devices.inputs[].type", Served, "pkg/virt-launcher/virtwrap/converter/compute/input_device.go", "InputTypeTablet"}, // the only one
	{"domain.devices.interfaces[].tag", Served, "pkg/virt-launcher/virtwrap/manager.go", "vif.Tag"},
	{"domain.devices.interfaces[].portRanges[]", Served, "pkg/network/setup/netpod/masquerade/masquerade.go", "PortRanges"},
	{"domain.launchSecurity.sev.attestation", Served, "pkg/virt-handler/vm.go", "shouldWaitForSEVAttestation"},
	{"domain.memory.reservedOverhead.memLock", Served, "pkg/hypervisor/kvm/runtime.go", "RequiresLockingMemory"},
	{"evictionStrategy", Served, "pkg/util/migrations/migrations.go", "vmi.Spec.EvictionStrategy"},
	{"volumes[].configMap.volumeLabel", Served, "pkg/config/config-map.go", "ConfigMap.VolumeLabel"},
	{"volumes[].containerDisk.path", Served, "pkg/virt-handler/container-disk/mount.go", "ContainerDisk.Path"},
	{"volumes[].containerPath", ByPod, "pkg/virt-api/webhooks/mutating-webhook/mutators/virt-launcher-pod-mutator.go", "ContainerPath.Path"},
	{"volumes[].downwardAPI.volumeLabel", Served, "pkg/config/downwardapi.go", "DownwardAPI.VolumeLabel"},
	{"volumes[].emptyDisk.capacity", Served, "pkg/emptydisk/emptydisk.go", "EmptyDisk.Capacity"},
	{"volumes[].hostDisk.capacity", Served, "pkg/host-disk/host-disk.go", "hostDisk.Capacity"},
	{"volumes[].hostDisk.shared", Served, "pkg/virt-handler/vm.go", "HostDisk.Shared"},
	{"volumes[].secret.volumeLabel", Served, "pkg/config/secret.go", "Secret.VolumeLabel"},
}

// apart are guests for what hides in the samples: KubeVirt fills it there, since another field needs it, or since its default is the same.
var apart = []string{
	`{domain: {memory: {guest: 1Gi, maxGuest: 2Gi}, devices: {}}}`,
	`{domain: {memory: {guest: 1Gi}, features: {smm: {enabled: true}}, devices: {}}}`,
	`{domain: {memory: {guest: 1Gi}, features: {hyperv: {vpindex: {enabled: true}}}, devices: {}}}`,
	`{domain: {memory: {guest: 1Gi}, features: {hyperv: {vapic: {enabled: true}}}, devices: {}}}`,
	`{domain: {memory: {guest: 1Gi}, features: {hyperv: {synic: {enabled: true}, vpindex: {enabled: true}}}, devices: {}}}`,
	`{domain: {memory: {guest: 1Gi}, devices: {inputs: [{name: tablet, type: tablet, bus: virtio}]}}}`,
	`{domain: {memory: {guest: 1Gi}, devices: {interfaces: [{name: pod, masquerade: {}, ports: [{port: 53, protocol: UDP}]}]}}, networks: [{name: pod, pod: {}}]}`,
}
