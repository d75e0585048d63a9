package admit

import (
	"reflect"
	"testing"

	"github.com/kilnvm/kiln/pkg/instancetype"
	"kubevirt.io/api/instancetype/v1beta1"
)

// everyDevice is a guest with a device of each kind that preferences speak of, none of which says what it is like.
const everyDevice = `
metadata: {name: web}
spec:
  template:
    spec:
      domain:
        devices:
          disks: [{name: a}, {name: b, disk: {bus: virtio}}, {name: c, cdrom: {}}, {name: d, lun: {}}]
          interfaces: [{name: default}]
          inputs: [{name: tablet}]
          sound: {name: audio}
          gpus: [{name: gpu, deviceName: vendor.com/gpu}]
      networks: [{name: default, pod: {}}]
      volumes: [{name: a, emptyDisk: {capacity: 1Gi}}, {name: b, emptyDisk: {capacity: 1Gi}}, {name: c, emptyDisk: {capacity: 1Gi}},
        {name: d, persistentVolumeClaim: {claimName: d}}]
`

// leafCase is one field of a size or a preference with what it makes of a guest: 'PATH VALUE'. One that begins with '-' is not applied,
// for the reason that follows; one that begins with '!' is required, and the error is at the path that follows.
type leafCase struct{ spec, want string }

var sizeLeaves = map[string]leafCase{
	"nodeSelector":              {`{nodeSelector: {zone: a}}`, `spec.nodeSelector[zone] "a"`},
	"schedulerName":             {`{schedulerName: s}`, `spec.schedulerName "s"`},
	"cpu.guest":                 {`{cpu: {guest: 3}}`, `spec.domain.cpu.sockets 3`},
	"cpu.model":                 {`{cpu: {model: Haswell}}`, `spec.domain.cpu.model "Haswell"`},
	"cpu.dedicatedCPUPlacement": {`{cpu: {dedicatedCPUPlacement: true}}`, `spec.domain.cpu.dedicatedCpuPlacement true`},
	"cpu.numa":                  {`{cpu: {numa: {guestMappingPassthrough: {}}}}`, `spec.domain.cpu.numa.guestMappingPassthrough {}`},
	"cpu.isolateEmulatorThread": {`{cpu: {isolateEmulatorThread: true}}`, `spec.domain.cpu.isolateEmulatorThread true`},
	"cpu.realtime":              {`{cpu: {realtime: {mask: "0"}}}`, `spec.domain.cpu.realtime.mask "0"`},
	"cpu.maxSockets":            {`{cpu: {maxSockets: 9}}`, `spec.domain.cpu.maxSockets 9`},
	"memory.guest":              {`{memory: {guest: 3Gi}}`, `spec.domain.memory.guest "3Gi"`},
	"memory.hugepages":          {`{memory: {hugepages: {pageSize: 2Mi}}}`, `spec.domain.memory.hugepages.pageSize "2Mi"`},
	"memory.overcommitPercent":  {`{memory: {guest: 4Gi, overcommitPercent: 25}}`, `spec.domain.resources.requests[memory] "3Gi"`},
	"memory.maxGuest":           {`{memory: {maxGuest: 9Gi}}`, `spec.domain.memory.maxGuest "9Gi"`},
	"gpus":                      {`{gpus: [{name: g, deviceName: d}]}`, `spec.domain.devices.gpus[0].deviceName "d"`},
	"hostDevices":               {`{hostDevices: [{name: h, deviceName: d}]}`, `spec.domain.devices.hostDevices[0].deviceName "d"`},
	"ioThreadsPolicy":           {`{ioThreadsPolicy: auto}`, `spec.domain.ioThreadsPolicy "auto"`},
	"ioThreads":                 {`{ioThreads: {supplementalPoolThreadCount: 2}}`, `spec.domain.ioThreads.supplementalPoolThreadCount 2`},
	"launchSecurity":            {`{launchSecurity: {snp: {}}}`, `spec.domain.launchSecurity.snp {}`},
	"annotations":               {`{annotations: {a: b}}`, `metadata.annotations[a] "b"`},
}

var preferenceLeaves = map[string]leafCase{
	"clock.preferredClockOffset":                {`{clock: {preferredClockOffset: {timezone: Europe/Vienna}}}`, `spec.domain.clock.timezone "Europe/Vienna"`},
	"clock.preferredTimer":                      {`{clock: {preferredTimer: {hpet: {tickPolicy: merge}}}}`, `spec.domain.clock.timer.hpet.tickPolicy "merge"`},
	"cpu.preferredCPUTopology":                  {`{cpu: {preferredCPUTopology: threads}}`, `spec.domain.cpu.threads 8`},
	"cpu.spreadOptions.across":                  {`{cpu: {preferredCPUTopology: spread, spreadOptions: {across: CoresThreads}}}`, `spec.domain.cpu.threads 2`},
	"cpu.spreadOptions.ratio":                   {`{cpu: {preferredCPUTopology: spread, spreadOptions: {ratio: 4}}}`, `spec.domain.cpu.cores 4`},
	"preferSpreadSocketToCoreRatio":             {`{cpu: {preferredCPUTopology: spread}, preferSpreadSocketToCoreRatio: 4}`, `spec.domain.cpu.cores 4`},
	"cpu.preferredCPUFeatures":                  {`{cpu: {preferredCPUFeatures: [{name: vmx}]}}`, `spec.domain.cpu.features[0].name "vmx"`},
	"devices.preferredAutoattachGraphicsDevice": {`{devices: {preferredAutoattachGraphicsDevice: false}}`, `spec.domain.devices.autoattachGraphicsDevice false`},
	"devices.preferredAutoattachMemBalloon":     {`{devices: {preferredAutoattachMemBalloon: false}}`, `spec.domain.devices.autoattachMemBalloon false`},
	"devices.preferredAutoattachPodInterface":   {`{devices: {preferredAutoattachPodInterface: false}}`, `spec.domain.devices.autoattachPodInterface false`},
	"devices.preferredAutoattachSerialConsole":  {`{devices: {preferredAutoattachSerialConsole: false}}`, `spec.domain.devices.autoattachSerialConsole false`},
	"devices.preferredAutoattachInputDevice":    {`{devices: {preferredAutoattachInputDevice: true}}`, `spec.domain.devices.autoattachInputDevice true`},
	"devices.preferredDisableHotplug":           {`{devices: {preferredDisableHotplug: true}}`, `spec.domain.devices.disableHotplug true`},
	"devices.preferredVirtualGPUOptions": {`{devices: {preferredVirtualGPUOptions: {display: {enabled: true}}}}`,
		`spec.domain.devices.gpus[0].virtualGPUOptions.display.enabled true`},
	"devices.preferredSoundModel":            {`{devices: {preferredSoundModel: ac97}}`, `spec.domain.devices.sound.model "ac97"`},
	"devices.preferredUseVirtioTransitional": {`{devices: {preferredUseVirtioTransitional: true}}`, `spec.domain.devices.useVirtioTransitional true`},
	"devices.preferredInputBus":              {`{devices: {preferredInputBus: virtio}}`, `spec.domain.devices.inputs[0].bus "virtio"`},
	"devices.preferredInputType":             {`{devices: {preferredInputType: pen}}`, `spec.domain.devices.inputs[0].type "pen"`},
	"devices.preferredDiskBus":               {`{devices: {preferredDiskBus: scsi}}`, `spec.domain.devices.disks[0].disk.bus "scsi"`},
	"devices.preferredLunBus":                {`{devices: {preferredLunBus: virtio}}`, `spec.domain.devices.disks[3].lun.bus "virtio"`},
	"devices.preferredCdromBus":              {`{devices: {preferredCdromBus: scsi}}`, `spec.domain.devices.disks[2].cdrom.bus "scsi"`},
	"devices.preferredDiskDedicatedIoThread": {`{devices: {preferredDiskDedicatedIoThread: true}}`, `spec.domain.devices.disks[1].dedicatedIOThread true`},
	"devices.preferredDiskCache":             {`{devices: {preferredDiskCache: none}}`, `spec.domain.devices.disks[0].cache "none"`},
	"devices.preferredDiskIO":                {`{devices: {preferredDiskIO: native}}`, `spec.domain.devices.disks[0].io "native"`},
	"devices.preferredDiskBlockSize": {`{devices: {preferredDiskBlockSize: {custom: {logical: 4096}}}}`,
		`spec.domain.devices.disks[0].blockSize.custom.logical 4096`},
	"devices.preferredInterfaceModel":  {`{devices: {preferredInterfaceModel: e1000}}`, `spec.domain.devices.interfaces[0].model "e1000"`},
	"devices.preferredRng":             {`{devices: {preferredRng: {}}}`, `spec.domain.devices.rng {}`},
	"devices.preferredBlockMultiQueue": {`{devices: {preferredBlockMultiQueue: true}}`, `spec.domain.devices.blockMultiQueue true`},
	"devices.preferredNetworkInterfaceMultiQueue": {`{devices: {preferredNetworkInterfaceMultiQueue: true}}`,
		`spec.domain.devices.networkInterfaceMultiqueue true`},
	"devices.preferredTPM":                 {`{devices: {preferredTPM: {persistent: true}}}`, `spec.domain.devices.tpm.persistent true`},
	"devices.preferredInterfaceMasquerade": {`{devices: {preferredInterfaceMasquerade: {}}}`, `spec.domain.devices.interfaces[0].masquerade {}`},
	"devices.preferredPanicDeviceModel":    {`{devices: {preferredPanicDeviceModel: isa}}`, `spec.domain.devices.panicDevices[0].model "isa"`},
	"devices.preferredVideoType":           {`{devices: {preferredVideoType: cirrus}}`, `spec.domain.devices.video.type "cirrus"`},
	"features.preferredAcpi":               {`{features: {preferredAcpi: {enabled: false}}}`, `spec.domain.features.acpi.enabled false`},
	"features.preferredApic":               {`{features: {preferredApic: {endOfInterrupt: true}}}`, `spec.domain.features.apic.endOfInterrupt true`},
	"features.preferredHyperv": {`{features: {preferredHyperv: {vendorid: {vendorid: me}}}}`,
		`spec.domain.features.hyperv.vendorid.vendorid "me"`},
	"features.preferredKvm":        {`{features: {preferredKvm: {hidden: true}}}`, `spec.domain.features.kvm.hidden true`},
	"features.preferredPvspinlock": {`{features: {preferredPvspinlock: {enabled: false}}}`, `spec.domain.features.pvspinlock.enabled false`},
	"features.preferredSmm":        {`{features: {preferredSmm: {}}}`, `spec.domain.features.smm.enabled true`},
	"firmware.preferredUseBios":    {`{firmware: {preferredUseBios: true}}`, `spec.domain.firmware.bootloader.bios {}`},
	"firmware.preferredUseBiosSerial": {`{firmware: {preferredUseBios: true, preferredUseBiosSerial: true}}`,
		`spec.domain.firmware.bootloader.bios.useSerial true`},
	"firmware.preferredUseEfi": {`{firmware: {preferredUseEfi: true}}`, `spec.domain.firmware.bootloader.efi {}`},
	"firmware.preferredUseSecureBoot": {`{firmware: {preferredUseEfi: true, preferredUseSecureBoot: false}}`,
		`spec.domain.firmware.bootloader.efi.secureBoot false`},
	"firmware.preferredEfi":        {`{firmware: {preferredEfi: {persistent: true}}}`, `spec.domain.firmware.bootloader.efi.persistent true`},
	"machine.preferredMachineType": {`{machine: {preferredMachineType: pc-q35-7.2}}`, `spec.domain.machine.type "pc-q35-7.2"`},
	"volumes.preferredStorageClassName": {`{volumes: {preferredStorageClassName: fast}}`,
		`-it applies to dataVolumeTemplates, which a VMI does not have`},
	"preferredSubdomain":                     {`{preferredSubdomain: sub}`, `spec.subdomain "sub"`},
	"preferredTerminationGracePeriodSeconds": {`{preferredTerminationGracePeriodSeconds: 7}`, `spec.terminationGracePeriodSeconds 7`},
	"requirements.cpu.guest":                 {`{requirements: {cpu: {guest: 99}}}`, `!spec.instancetype`},
	"requirements.memory.guest":              {`{requirements: {memory: {guest: 99Gi}}}`, `!spec.instancetype`},
	"requirements.architecture":              {`{requirements: {architecture: s390x}}`, `!spec.template.spec.architecture`},
	"annotations":                            {`{annotations: {a: b}}`, `metadata.annotations[a] "b"`},
	"preferredArchitecture":                  {`{preferredArchitecture: arm64}`, `spec.architecture "arm64"`},
	"preferredLaunchSecurity":                {`{preferredLaunchSecurity: {snp: {}}}`, `spec.domain.launchSecurity.snp {}`},
}

// Each field of a size takes effect in the guest.
func TestEveryFieldOfASize(t *testing.T) {
	t.Parallel()
	tested := ownFields(reflect.TypeFor[v1beta1.VirtualMachineInstancetypeSpec](), "", func(leaf string) {
		test := sizeLeaves[leaf]
		size := decode[v1beta1.VirtualMachineInstancetypeSpec](t, test.spec+"\n")
		if size.Memory.Guest.IsZero() {
			size.Memory.Guest = *gibibyte
		}
		takesEffect(t, leaf, test.want, instancetype.Set{Instancetype: &instancetype.Instancetype{Spec: size}})
	})
	if tested != len(sizeLeaves) {
		t.Errorf("%d fields, %d cases", tested, len(sizeLeaves))
	}
}

// Each field of a preference takes effect in a guest that leaves it open, or is told not to.
func TestEveryFieldOfAPreference(t *testing.T) {
	t.Parallel()
	size := &instancetype.Instancetype{Spec: decode[v1beta1.VirtualMachineInstancetypeSpec](t, `{cpu: {guest: 8}, memory: {guest: 1Gi}}`)}
	tested := ownFields(reflect.TypeFor[v1beta1.VirtualMachinePreferenceSpec](), "", func(leaf string) {
		test := preferenceLeaves[leaf]
		preference := &instancetype.Preference{Spec: decode[v1beta1.VirtualMachinePreferenceSpec](t, test.spec+"\n")}
		takesEffect(t, leaf, test.want, instancetype.Set{Instancetype: size, Preference: preference})
	})
	if tested != len(preferenceLeaves) {
		t.Errorf("%d fields, %d cases", tested, len(preferenceLeaves))
	}
}
