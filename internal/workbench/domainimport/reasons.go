package domainimport

import "github.com/kilnvm/kiln/pkg/record"

// reason says why an element has no field of its own.
type reason struct {
	outcome Outcome
	text    string
}

// verdict returns what the outcome means for the guest.
func (r reason) verdict() record.Verdict {
	if r.outcome == LeftOut {
		return record.NeedsRestart
	}
	return record.Compatible
}

// leftOut returns the reason for an element that no VM has.
func leftOut(text string) reason { return reason{LeftOut, text} }

const (
	ofScheduler = "requests, limits, dedicatedCpuPlacement and the HostProfiles of the cluster decide"
	ofTools     = "it is for programs of the old host; annotations of the VM may keep it"
	ofLibvirt   = "the VM's runStrategy and rebootPolicy decide"
)

// hostParts are the children of domain that the guest does not see, or that no VM can have.
var hostParts = map[string]reason{
	"name":        {Mapped, "it becomes the name of the VM"},
	"title":       {HostOnly, ofTools},
	"description": {HostOnly, ofTools},
	"metadata":    {HostOnly, ofTools},
	"hwuuid":      {LeftOut, "the DMI table has the UUID of the domain"},

	"currentMemory": {HostOnly, "the guest has all of its memory from its start on"},
	"memoryBacking": {HostOnly, "the launcher decides; huge pages are spec.template.spec.domain.memory.hugepages"},
	"maxMemory":     {HostOnly, "spec.template.spec.domain.memory.maxGuest decides how far the memory can grow"},
	"vcpus":         {HostOnly, "spec.template.spec.domain.cpu decides which CPUs can be plugged in"},

	"blkiotune": {HostOnly, ofScheduler}, "memtune": {HostOnly, ofScheduler}, "cputune": {HostOnly, ofScheduler}, "numatune": {HostOnly, ofScheduler},
	"resource": {HostOnly, ofScheduler}, "iothreads": {HostOnly, ofScheduler}, "iothreadids": {HostOnly, ofScheduler}, "defaultiothread": {HostOnly, ofScheduler},
	"throttlegroups": {HostOnly, ofScheduler}, "iommufd": {HostOnly, ofScheduler},
	"idmap": {HostOnly, "the guest runs as the user of its pod"}, "seclabel": {HostOnly, "the security context of the pod decides"},
	"perf": {HostOnly, "the metrics of the cluster count for all guests"}, "keywrap": {LeftOut, "a VM has no field for it"},

	"on_poweroff": {HostOnly, ofLibvirt}, "on_reboot": {HostOnly, ofLibvirt}, "on_crash": {HostOnly, ofLibvirt}, "on_lockfailure": {HostOnly, ofLibvirt},

	"qemu:commandline":  {LeftOut, "arguments of QEMU are no part of a VM: find out which device or setting they added"},
	"qemu:override":     {LeftOut, "arguments of QEMU are no part of a VM: find out which device or setting they added"},
	"qemu:capabilities": {HostOnly, "libvirt decides what it uses of QEMU"}, "qemu:deprecation": {HostOnly, "libvirt decides what it uses of QEMU"},
}

// hostDevices are the kinds of devices that the guest does not see, or that no VM can have.
var hostDevices = map[string]reason{
	"emulator":    {HostOnly, "the image of the launcher has the emulator"},
	"graphics":    {HostOnly, "a VM with a video adapter has a VNC display: 'virtctl vnc'"},
	"audio":       {HostOnly, "no client hears the guest"},
	"console":     {HostOnly, "'virtctl console' shows the first serial port"},
	"lease":       {HostOnly, "the cluster keeps two guests from starting with one disk"},
	"redirfilter": {HostOnly, "the client decides which devices it passes"},
	"hub":         {LeftOut, "a VM has no USB hub; its USB controller has 15 ports"},
	"smartcard":   {LeftOut, "a VM has no smartcard reader"},
	"parallel":    {LeftOut, "a VM has no parallel port"},
	"shmem":       {LeftOut, "a VM shares no memory with others"},
	"memory":      {LeftOut, "a VM gets its memory from spec.template.spec.domain.memory, and no memory module by itself"},
	"iommu":       {LeftOut, "a VM gets an IOMMU only with more than 254 CPUs"},
	"nvram":       {LeftOut, "only pseries has it"},
	"crypto":      {LeftOut, "a VM has no crypto device"},
	"pstore":      {LeftOut, "a VM has no persistent storage for crash reports"},
}
