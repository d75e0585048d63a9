// Package kubevirt puts recorded hardware back into a domain that KubeVirt's virt-launcher is about to define. Devices are matched by their alias, ua-NAME, and
// by their kind if KubeVirt gives none.
//
// Virt-launcher defines a domain up to three times (KubeVirt: docs/pci-topology.md): with placeholder interfaces, without them, and with more root ports.
// Each time it reads back what libvirt has placed, in types that know fewer fields than libvirt. So PutBack has no memory: it says the same each time.
//
// The XML is edited as a tree and not read into libvirtxml. KubeVirt writes host devices without 'mode', which libvirtxml refuses, and elements that
// libvirtxml would lose.
package kubevirt

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/beevik/etree"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/record"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// longestAnnotation is the limit of the API server for all annotations of an object, in bytes.
const longestAnnotation = 256 << 10

// mostErrors is how many mistakes are listed; the others are counted. A hostile record has a thousand.
const mostErrors = 8

// recordPath is the field with the record of a VMI.
var recordPath = field.NewPath("metadata", "annotations").Key(v1alpha1.AnnotationFrontend)

// Recorded returns the record in the annotation kilnvm.io/frontend of a VMI; nil without one or with FrontendNew. asked reports whether the VMI has the
// annotation. The value is hostile input: an error names the annotation and the entries that no boot can have written.
func Recorded(vmi *v1.VirtualMachineInstance) (frozen *record.Record, asked bool, err error) {
	text, asked := vmi.Annotations[v1alpha1.AnnotationFrontend]
	if !asked || text == v1alpha1.FrontendNew {
		return nil, asked, nil
	}
	if len(text) > longestAnnotation {
		return nil, true, field.TooLong(recordPath, "", longestAnnotation)
	}
	out := &record.Record{}
	if err := json.Unmarshal([]byte(text), out); err != nil {
		return nil, true, fmt.Errorf("%s: not a record of hardware: %w", recordPath, err)
	}
	if err := record.Check(out); err != nil {
		return nil, true, fmt.Errorf("%s: %w", recordPath, err)
	}
	return out, true, nil
}

// PutBack returns the XML of a domain in which each device of the record is at its recorded address, and the machine has its recorded version. A guest with
// host-model has its recorded CPU. The domain has all recorded root ports, even those without a device, and those that KubeVirt has added. A device that is not
// in the record keeps its address. It loses the address if a recorded device or port has that place: libvirt then assigns another. A pciAddress in the VMI
// comes before the record. The firmware boots the recorded disk, unless a device has a boot order.
//
// The record must have passed record.Check; with nil, nothing changes. An error names each recorded device that cannot be placed.
func PutBack(xml []byte, vmi *v1.VirtualMachineInstance, frozen *record.Record) ([]byte, error) {
	if frozen == nil {
		return xml, nil
	}
	doc := etree.NewDocument()
	doc.WriteSettings = etree.WriteSettings{CanonicalText: true, CanonicalAttrVal: true} // a line break in an attribute stays one
	if err := doc.ReadFromBytes(xml); err != nil {
		return nil, fmt.Errorf("the domain of virt-launcher is not XML: %w", err)
	}
	root := doc.SelectElement("domain")
	if root == nil || root.SelectElement("devices") == nil {
		return nil, errors.New("the domain of virt-launcher has no element 'domain' with 'devices'")
	}
	g := &guest{root: root, list: root.SelectElement("devices"), vmi: vmi, frozen: frozen}
	g.restoreMachine()
	g.restoreCPU()
	g.findDevices()
	g.addControllers()
	g.placeDrives()
	g.placeNumbered()
	g.placePCIDevices()
	g.bootRecordedDisk()
	if more := len(g.errs) - mostErrors; more > 0 {
		g.errs = append(g.errs[:mostErrors], fmt.Errorf("and %d more", more))
	}
	if len(g.errs) > 0 {
		return nil, errors.Join(g.errs...)
	}
	return doc.WriteToBytes()
}

// guest is a domain whose devices are being placed.
type guest struct {
	root, list *etree.Element
	vmi        *v1.VirtualMachineInstance
	frozen     *record.Record
	devices    []*device
	errs       []error
}

func (g *guest) addError(of, format string, args ...any) {
	g.errs = append(g.errs, fmt.Errorf("%s: %s", of, fmt.Sprintf(format, args...)))
}

// aliases of machine types, and what their versions begin with.
var aliases = map[string]string{"q35": "pc-q35-", "virt": "virt-", "s390-ccw-virtio": "s390-ccw-virtio-"}

// restoreMachine replaces an alias by the recorded version. A version that the VMI asks for stays, as without KubeVirt.
func (g *guest) restoreMachine() {
	kind := g.root.FindElement("os/type")
	if kind == nil || g.frozen.Machine == "" {
		return
	}
	alias := kind.SelectAttrValue("machine", "")
	family, ok := aliases[alias]
	switch {
	case !ok || alias == g.frozen.Machine:
	case strings.HasPrefix(g.frozen.Machine, family):
		kind.CreateAttr("machine", g.frozen.Machine)
	default:
		g.addError("machine", "the record has '%s', which is no version of '%s'", g.frozen.Machine, alias)
	}
}

// isFlat reports whether all devices are on the root bus.
func (g *guest) isFlat() bool { return g.vmi.Annotations[v1.PlacePCIDevicesOnRootComplex] == "true" }

// Chosen returns the keys of the devices whose PCI address a VMI asks for.
func Chosen(vmi *v1.VirtualMachineInstance) map[string]bool {
	out := map[string]bool{}
	for _, d := range vmi.Spec.Domain.Devices.Disks {
		if d.Disk != nil && d.Disk.PciAddress != "" {
			out[record.Key("disk", d.Name)] = true
		}
	}
	for _, i := range vmi.Spec.Domain.Devices.Interfaces {
		if i.PciAddress != "" {
			out[record.Key("interface", i.Name)], out[record.Key("hostdev", i.Name)] = true, true
		}
	}
	return out
}
