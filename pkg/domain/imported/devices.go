package imported

import (
	"fmt"
	"slices"

	"github.com/kilnvm/kiln/pkg/domain/abi"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// readDevices reads the devices that are neither drives nor network cards.
func (r *reader) readDevices() {
	r.readVideo()
	r.readInputs()
	r.readSound()
	r.readTPM()
	r.readWatchdog()
	r.readPanics()
	r.readFilesystems()
	r.readHostDevices()
	r.readConsoles()
	r.readChannels()
	if balloon := r.dom.Devices.MemBalloon; balloon != nil && balloon.Model == "none" {
		r.devices.AutoattachMemBalloon = ptr.To(false)
	}
	if len(r.dom.Devices.RNGs) > 0 {
		r.devices.Rng = &v1.Rng{}
		r.dom.Devices.RNGs[0].Alias = abi.Alias("rng")
	}
	if len(r.dom.Devices.RedirDevs) > 0 {
		r.devices.ClientPassthrough = &v1.ClientPassthroughDevices{}
	}
	if r.dom.Devices.VSock != nil {
		r.devices.AutoattachVSOCK = ptr.To(true)
	}
}

// readVideo reads the first video adapter. A VM has a display exactly if it has an adapter.
func (r *reader) readVideo() {
	videos := r.dom.Devices.Videos
	r.devices.AutoattachGraphicsDevice = ptr.To(len(videos) > 0 && videos[0].Model.Type != "none")
	if !*r.devices.AutoattachGraphicsDevice {
		return
	}
	videos[0].Alias = abi.Alias("video")
	model := videos[0].Model.Type
	if !slices.Contains(r.board.Videos, model) {
		model = "virtio"
	}
	r.devices.Video = &v1.VideoDevice{Type: model}
}

// readInputs reads tablets and keyboards. The PS/2 devices of amd64, and the keyboards that other architectures have beside a display, are in each guest.
func (r *reader) readInputs() {
	r.devices.AutoattachInputDevice = ptr.To(false)
	implicit := map[string]string{}
	if *r.devices.AutoattachGraphicsDevice {
		switch r.arch {
		case "arm64":
			implicit = map[string]string{"tablet usb": "usb-tablet", "keyboard usb": "usb-keyboard"}
		case "s390x":
			implicit = map[string]string{"keyboard virtio": "virtio-keyboard"}
		}
	}
	for i := range r.dom.Devices.Inputs {
		given := &r.dom.Devices.Inputs[i]
		key := given.Type + " " + given.Bus
		switch known := implicit[key]; {
		case given.Bus == "ps2":
		case known != "":
			given.Alias = abi.Alias(known)
			delete(implicit, key)
		case (given.Type == "tablet" || given.Type == "keyboard") && (given.Bus == "usb" && r.board.USB || given.Bus == "virtio"):
			name := fmt.Sprintf("input%d", i)
			given.Alias = abi.Alias(name)
			r.devices.Inputs = append(r.devices.Inputs, v1.Input{Name: name, Type: v1.InputType(given.Type), Bus: v1.InputBus(given.Bus)})
		default:
			r.leaveOut("input", i, "a VM has tablets and keyboards on buses usb and virtio, and no '%s' on bus '%s'", given.Type, given.Bus)
		}
	}
}

// readSound reads the first sound card.
func (r *reader) readSound() {
	for i := range r.dom.Devices.Sounds {
		given := &r.dom.Devices.Sounds[i]
		switch {
		case !slices.Contains(r.board.Sounds, given.Model):
			r.leaveOut("sound", i, "a VM of amd64 has sound cards 'ich9' and 'ac97', and no '%s'; other architectures have none", given.Model)
		case r.devices.Sound != nil:
			r.leaveOut("sound", i, "a VM has one sound card")
		default:
			r.devices.Sound = &v1.SoundDevice{Name: "sound", Model: given.Model}
			given.Alias = abi.Alias("sound")
		}
	}
}

// readTPM reads the TPM. Its state stays on the host.
func (r *reader) readTPM() {
	for i := range r.dom.Devices.TPMs {
		given := &r.dom.Devices.TPMs[i]
		if i > 0 || !r.board.TPM {
			r.leaveOut("tpm", i, "a VM of amd64 or arm64 has one TPM; s390x has none")
			continue
		}
		persistent := given.Backend != nil && given.Backend.Emulator != nil
		r.devices.TPM = &v1.TPMDevice{Persistent: &persistent}
		given.Alias = abi.Alias("tpm")
		r.addDeviceNote("tpm", "tpm", "the TPM begins empty: keys that the old TPM keeps, such as BitLocker's, are not in it. Suspend BitLocker before the move, "+
			"and keep its recovery key")
	}
}

// readWatchdog reads the watchdog. The chipset of q35 has another one, which libvirt lists since version 9.1.
func (r *reader) readWatchdog() {
	for i := range r.dom.Devices.Watchdogs {
		given := &r.dom.Devices.Watchdogs[i]
		dog := &v1.Watchdog{Name: "watchdog"}
		switch {
		case given.Model == "itco":
			continue
		case given.Model == "i6300esb" && r.board.Watchdog == given.Model:
			dog.I6300ESB = &v1.I6300ESBWatchdog{Action: watchdogAction(given.Action)}
		case given.Model == "diag288" && r.board.Watchdog == given.Model:
			dog.Diag288 = &v1.Diag288Watchdog{Action: watchdogAction(given.Action)}
		default:
			r.leaveOut("watchdog", i, "a VM has watchdog 'i6300esb' on amd64 and 'diag288' on s390x, and no '%s'", given.Model)
			continue
		}
		if r.devices.Watchdog != nil {
			r.leaveOut("watchdog", i, "a VM has one watchdog")
			continue
		}
		given.Alias, r.devices.Watchdog = abi.Alias(dog.Name), dog
	}
}

// watchdogAction returns the action, and reset for one that a VM cannot have.
func watchdogAction(action string) v1.WatchdogAction {
	switch a := v1.WatchdogAction(action); a {
	case v1.WatchdogActionPoweroff, v1.WatchdogActionShutdown:
		return a
	}
	return v1.WatchdogActionReset
}

// readPanics reads the devices by which a guest reports a crash. s390x has one in each guest.
func (r *reader) readPanics() {
	for i := range r.dom.Devices.Panics {
		given := &r.dom.Devices.Panics[i]
		model := v1.PanicDeviceModel(given.Model)
		if model == "" && r.arch == "amd64" {
			model = v1.Isa // libvirt's default
		}
		known := slices.ContainsFunc(r.devices.PanicDevices, func(p v1.PanicDevice) bool { return *p.Model == model })
		switch {
		case r.arch == "s390x":
		case !slices.Contains(r.board.Panics, string(model)) || known:
			r.leaveOut("panic", i, "a VM of %s has no further panic device '%s'", r.arch, model)
		default:
			given.Alias = abi.Alias("panic-" + string(model))
			r.devices.PanicDevices = append(r.devices.PanicDevices, v1.PanicDevice{Model: &model})
		}
	}
}

// readFilesystems reads shared folders on virtiofs.
func (r *reader) readFilesystems() {
	for i := range r.dom.Devices.Filesystems {
		given := &r.dom.Devices.Filesystems[i]
		if given.Driver == nil || given.Driver.Type != "virtiofs" || given.Target == nil {
			r.leaveOut("filesystem", i, "a VM shares folders on virtiofs only")
			continue
		}
		name := objectName(given.Target.Dir)
		taken := slices.ContainsFunc(r.devices.Filesystems, func(f v1.Filesystem) bool { return f.Name == name }) ||
			slices.ContainsFunc(r.spec.Volumes, func(v v1.Volume) bool { return v.Name == name })
		if name != given.Target.Dir || taken {
			r.leaveOut("filesystem", i, "the guest mounts the folder by the tag '%s', which no volume can have as its name", given.Target.Dir)
			continue
		}
		given.Alias = abi.BoundAlias("filesystem", name)
		r.devices.Filesystems = append(r.devices.Filesystems, v1.Filesystem{Name: name, Virtiofs: &v1.FilesystemVirtiofs{}})
		r.addClaim("filesystem", name, folderOf(given.Source), "")
	}
}

// folderOf returns the folder of the host.
func folderOf(source *libvirtxml.DomainFilesystemSource) string {
	if source == nil || source.Mount == nil {
		return ""
	}
	return source.Mount.Dir
}

// readHostDevices leaves the host's devices out: another host has others.
func (r *reader) readHostDevices() {
	for i := range r.dom.Devices.Hostdevs {
		r.leaveOut("hostdev", i, "the device belongs to the old host: add a device of the cluster to spec.template.spec.domain.devices.hostDevices or gpus by its "+
			"resource name")
	}
}

// readConsoles reads whether there is a serial port. libvirt makes one of the first console if there is no other, and on s390x it is only a console there.
// Other consoles of types sclp, sclplm and virtio are devices of their own.
func (r *reader) readConsoles() {
	devices := r.dom.Devices
	for i := range devices.Consoles {
		kind := ""
		if target := devices.Consoles[i].Target; target != nil {
			kind = target.Type
		}
		switch {
		case len(devices.Serials) == 0 && (kind == "" || kind == "serial" || kind == "sclp"):
			devices.Serials = []libvirtxml.DomainSerial{{Source: devices.Consoles[i].Source, Target: r.board.Serial}}
		case kind != "" && kind != "serial":
			r.leaveOut("console", i, "a VM has one serial port, and no other console")
		}
	}
	r.devices.AutoattachSerialConsole = ptr.To(len(devices.Serials) > 0)
	if len(devices.Serials) > 0 {
		devices.Serials[0].Alias = abi.Alias("serial0")
	}
}

// readChannels reads the channels. The channel of the guest agent is in each guest.
func (r *reader) readChannels() {
	for i := range r.dom.Devices.Channels {
		given := &r.dom.Devices.Channels[i]
		if given.Target != nil && given.Target.VirtIO != nil && given.Target.VirtIO.Name == "org.qemu.guest_agent.0" {
			given.Alias = abi.Alias(abi.GuestAgent)
			continue
		}
		given.Alias = abi.Alias(fmt.Sprintf("old-channel-%d", i)) // else it would be compared with the channel of the guest agent
		r.leaveOut("channel", i, "a VM has the channel of the guest agent, and no other")
	}
}

// readBootOrder reads the order in which the firmware tries devices: of the devices themselves, or of <boot dev>, which means the first device of each kind.
// One order that starts with the disks is the default of a VM without bootOrder.
func (r *reader) readBootOrder() {
	orders := map[uint]bool{}
	set := func(order uint, to **uint) {
		if order > 0 && !orders[order] && *to == nil {
			orders[order] = true
			*to = &order
		}
	}
	for i := range r.devices.Disks {
		if given := r.diskNamed(r.devices.Disks[i].Name); given != nil && given.Boot != nil {
			set(given.Boot.Order, &r.devices.Disks[i].BootOrder)
		}
	}
	for i := range r.devices.Interfaces {
		if given := r.interfaceNamed(r.devices.Interfaces[i].Name); given != nil && given.Boot != nil {
			set(given.Boot.Order, &r.devices.Interfaces[i].BootOrder)
		}
	}
	if len(orders) == 0 && len(r.dom.OS.BootDevices) == 0 {
		r.dom.OS.BootDevices = []libvirtxml.DomainBootDevice{{Dev: "hd"}} // as libvirt writes it when it defines the domain
	}
	boot := r.dom.OS.BootDevices
	if len(orders) > 0 || len(boot) == 1 && boot[0].Dev == "hd" {
		return
	}
	for i, device := range boot[:min(len(boot), 8)] {
		r.orderKind(device.Dev, func(to **uint) { set(uint(i+1), to) })
	}
}

// orderKind calls set for the order of the first device of a kind of <boot dev>.
func (r *reader) orderKind(kind string, set func(**uint)) {
	first := func(match func(v1.Disk) bool) {
		if at := slices.IndexFunc(r.devices.Disks, match); at >= 0 {
			set(&r.devices.Disks[at].BootOrder)
		}
	}
	switch kind {
	case "hd":
		first(func(d v1.Disk) bool { return d.CDRom == nil })
	case "cdrom":
		first(func(d v1.Disk) bool { return d.CDRom != nil })
	case "network":
		if len(r.devices.Interfaces) > 0 {
			set(&r.devices.Interfaces[0].BootOrder)
		}
	}
}

// diskNamed returns the domain's drive of a disk of the VM.
func (r *reader) diskNamed(name string) *libvirtxml.DomainDisk {
	for i := range r.dom.Devices.Disks {
		if d := &r.dom.Devices.Disks[i]; d.Alias != nil && *d.Alias == *abi.BoundAlias("disk", name) {
			return d
		}
	}
	return nil
}

// interfaceNamed returns the domain's card of an interface of the VM.
func (r *reader) interfaceNamed(name string) *libvirtxml.DomainInterface {
	for i := range r.dom.Devices.Interfaces {
		if d := &r.dom.Devices.Interfaces[i]; d.Alias != nil && *d.Alias == *abi.BoundAlias("interface", name) {
			return d
		}
	}
	return nil
}
