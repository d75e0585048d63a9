package domainimport

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/kilnvm/kiln/pkg/domain/imported"
	"k8s.io/apimachinery/pkg/api/resource"
	"libvirt.org/go/libvirtxml"
)

// Fact is a property of the domain in the words of its owner, such as "memory" and "2Gi".
type Fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// factsOf describes the domain for an owner who does not read its XML. read is the domain after imported.Read or imported.Match: its memory is in KiB.
func factsOf(doc *imported.Document, read *libvirtxml.Domain) (facts []Fact) {
	add := func(name string, parts ...string) {
		if value := joinWords(", ", parts...); value != "" {
			facts = append(facts, Fact{name, value})
		}
	}
	dom := doc.Domain
	add("name", dom.Name)
	add("title", dom.Title)
	add("UUID", dom.UUID)
	add("machine", dom.OS.Type.Machine, dom.OS.Type.Arch)
	add("firmware", firmwareOf(dom.OS))
	add("CPUs", cpusOf(read))
	if read.Memory != nil {
		add("memory", resource.NewQuantity(int64(read.Memory.Value)<<10, resource.BinarySI).String())
	}
	for _, device := range deviceElements(doc.Root) {
		model := device.Child("model").Attribute("type")
		switch device.Name {
		case "disk":
			target := device.Child("target")
			serial := ""
			if given := device.Child("serial"); given != nil {
				serial = "serial " + given.Text
			}
			add(joinWords(" ", cmp.Or(device.Attribute("device"), "disk"), target.Attribute("dev")), target.Attribute("bus"), serial,
				cmp.Or(connectionOf(device), "empty"), device.Child("driver").Attribute("type"))
		case "interface":
			add("network card", model, device.Child("mac").Attribute("address"), joinWords(" ", device.Attribute("type"), connectionOf(device)))
		case "video":
			add("video adapter", model)
		case "tpm":
			add("TPM", cmp.Or(device.Attribute("model"), "default model"))
		}
	}
	return facts
}

// joinWords joins the texts that are not empty.
func joinWords(separator string, words ...string) string {
	var found []string
	for _, word := range words {
		if word != "" {
			found = append(found, word)
		}
	}
	return strings.Join(found, separator)
}

// connectionOf returns what a drive or card is connected to on the host; empty without a name.
func connectionOf(device *imported.Element) string {
	source := device.Child("source")
	for _, name := range []string{"file", "dev", "dir", "pool", "bridge", "network", "protocol"} {
		if value := source.Attribute(name); value != "" {
			return joinWords(" ", value, source.Attribute("volume"), source.Attribute("name"))
		}
	}
	return ""
}

// firmwareOf returns the kind of the firmware; empty if the architecture has only one.
func firmwareOf(os *libvirtxml.DomainOS) string {
	switch {
	case os.Kernel != "":
		return "none, a kernel of the host"
	case os.Firmware == "efi" || os.Loader != nil && (os.Loader.Type == "pflash" || os.Loader.Type == "rom"):
		return "EFI"
	case os.Type.Arch == "x86_64":
		return "BIOS"
	}
	return ""
}

// cpusOf returns the number of CPUs at the start, and their model.
func cpusOf(dom *libvirtxml.Domain) string {
	number, model := uint(1), ""
	if dom.VCPU != nil {
		number = cmp.Or(dom.VCPU.Current, dom.VCPU.Value, 1)
	}
	if dom.CPU != nil {
		model = dom.CPU.Mode
		if dom.CPU.Model != nil {
			model = cmp.Or(dom.CPU.Model.Value, model)
		}
	}
	return joinWords(", ", fmt.Sprint(number), model)
}
