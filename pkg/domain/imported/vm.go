package imported

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/domain/frontend"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// Options are the decisions of the user.
type Options struct {
	// Name and Namespace of the VM. Without a name, the VM has the name of the domain.
	Name, Namespace string
	// Networks maps the name of a bridge, a network or a device of the host to PodNetwork, or to a NetworkAttachmentDefinition as NAME or NAMESPACE/NAME.
	Networks map[string]string
	// Claims maps the target name of a disk, such as vda, to an existing PersistentVolumeClaim.
	Claims map[string]string
}

// PodNetwork is the network of the pod in Options.Networks.
const PodNetwork = "pod"

// Reading is a domain as a VM.
type Reading struct {
	VM *v1.VirtualMachine
	// Domain is a copy of the domain whose devices have the aliases of the VM's devices. Devices without a field in the VM have no alias.
	Domain *libvirtxml.Domain
	// Sources are the disks, filesystems and networks that the VM needs, in the order of the domain.
	Sources []Source
	// Notes are decisions that a comparison of the domains does not show.
	Notes []Note
	// OtherBoard reports that the machine type is of a family that Kiln does not have, so that no address has a meaning on the VM's machine.
	OtherBoard bool
	// NoAddresses reports that devices have no addresses: libvirt assigns them when it defines the domain.
	NoAddresses bool
}

// Source is what a device was connected to on the host, and what takes its place.
type Source struct {
	// Device is the key of the device, such as disk.vda.
	Device string `json:"device"`
	// From is a file, device, bridge or network of the host; empty for an empty drive.
	From string `json:"from"`
	// Format is the format of an image, such as qcow2; empty if it is not an image or unknown.
	Format string `json:"format,omitempty"`
	// To is the object of the cluster by kind and name.
	To string `json:"to"`
	// Claim is the name of the claim that must be filled with an image; empty for others and for existing claims.
	Claim string `json:"claim,omitempty"`
}

// Note is a decision about an element, such as devices/sound or os.
type Note struct {
	// Device is the key of a device of the VM; empty if the note is about Element.
	Device string
	// Element is a child of domain, or devices/KIND[INDEX] with the index among the devices of its kind.
	Element string
	Text    string
	// Noticed means that the guest may not boot as before, although its hardware is the same.
	Noticed bool
}

// reader makes one Reading.
type reader struct {
	Options
	Reading
	dom     *libvirtxml.Domain
	spec    *v1.VirtualMachineInstanceSpec
	devices *v1.Devices
	arch    string
	board   frontend.Board
	pod     bool // an interface has the network of the pod
}

// Read returns the VM whose hardware is nearest to the hardware of the domain. The error says why no VM can be made: another hypervisor or architecture. All
// else that the VM cannot have is left to a comparison of the domains.
func Read(doc *Document, o Options) (*Reading, error) {
	architecture, err := architectureOf(doc.Domain)
	if err != nil {
		return nil, err
	}
	dom, err := copyWithoutAliases(doc.Domain)
	if err != nil {
		return nil, err
	}
	name := o.Name
	if name == "" {
		if name = objectName(dom.Name); name == "" {
			return nil, fmt.Errorf("the domain has the name '%s', which no VM can have: give one", dom.Name)
		}
	}
	vm := &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: o.Namespace}}
	vm.SetGroupVersionKind(v1.VirtualMachineGroupVersionKind)
	vm.Spec.RunStrategy = ptr.To(v1.RunStrategyHalted) // its disks must be filled first
	vm.Spec.Template = &v1.VirtualMachineInstanceTemplateSpec{}
	r := &reader{Options: o, dom: dom, spec: &vm.Spec.Template.Spec, devices: &vm.Spec.Template.Spec.Domain.Devices,
		arch: architecture, board: frontend.BoardOf(architecture)}
	r.VM, r.Domain = vm, dom
	if err := r.readPlatform(); err != nil {
		return nil, err
	}
	r.readDisks()
	r.readInterfaces()
	r.readDevices()
	r.readBootOrder()
	r.NoAddresses = !hasAddresses(dom)
	return &r.Reading, nil
}

// copyWithoutAliases returns a copy of a domain whose devices have no aliases: the VM has other names.
func copyWithoutAliases(given *libvirtxml.Domain) (*libvirtxml.Domain, error) {
	text, err := given.Marshal()
	if err != nil {
		return nil, err
	}
	dom := &libvirtxml.Domain{}
	if err := dom.Unmarshal(text); err != nil {
		return nil, err
	}
	if dom.Devices == nil {
		dom.Devices = &libvirtxml.DomainDeviceList{}
	}
	for _, device := range abi.Devices(dom) {
		if device.Alias != nil {
			*device.Alias = nil
		}
	}
	return dom, nil
}

// architectures are the names of Kubernetes by libvirt's.
var architectures = map[string]string{"x86_64": "amd64", "aarch64": "arm64", "s390x": "s390x"}

// architectureOf returns the architecture of a domain of QEMU.
func architectureOf(dom *libvirtxml.Domain) (string, error) {
	if dom.Type != "kvm" && dom.Type != "qemu" {
		return "", fmt.Errorf("type='%s' is another hypervisor: only domains of type 'kvm' and 'qemu' can be imported", dom.Type)
	}
	if dom.OS == nil || dom.OS.Type == nil || dom.OS.Type.Arch == "" {
		return "", errors.New("<os> has no <type> with the architecture: import what 'virsh dumpxml' prints")
	}
	architecture := architectures[dom.OS.Type.Arch]
	if architecture == "" {
		return "", fmt.Errorf("architecture '%s' is not supported: only x86_64, aarch64 and s390x", dom.OS.Type.Arch)
	}
	return architecture, nil
}

// addNote adds a decision about an element that becomes no device of the VM.
func (r *reader) addNote(element, text string, args ...any) {
	r.Notes = append(r.Notes, Note{Element: element, Text: fmt.Sprintf(text, args...)})
}

// leaveOut adds the reason why the VM does not have a device. index counts the devices of the kind.
func (r *reader) leaveOut(kind string, index int, reason string, args ...any) {
	r.addNote("devices/"+kind+"["+strconv.Itoa(index)+"]", reason, args...)
}

// addDeviceNote adds a decision about a device of the VM.
func (r *reader) addDeviceNote(kind, name, text string, args ...any) {
	r.Notes = append(r.Notes, Note{Device: kind + "." + name, Text: fmt.Sprintf(text, args...)})
}

var unusable = regexp.MustCompile(`[^a-z0-9]+`)

// objectName returns the name in the form of names of objects; empty if nothing of it can be used.
func objectName(text string) string {
	name := strings.Trim(unusable.ReplaceAllString(strings.ToLower(text[:min(len(text), validation.DNS1123SubdomainMaxLength)]), "-"), "-")
	return strings.TrimRight(name[:min(len(name), validation.DNS1123LabelMaxLength)], "-")
}

// hasAddresses reports whether a device has an address, or no device could have one.
func hasAddresses(dom *libvirtxml.Domain) bool {
	found := 0
	for _, device := range abi.Devices(dom) {
		if *device.Address != nil {
			return true
		}
		found++
	}
	return found == 0
}
