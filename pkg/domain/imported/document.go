package imported

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"libvirt.org/go/libvirtxml"
)

// Bounds of a document.
const (
	// MostBytes is the length of the longest document in bytes: libvirt sends no longer text (REMOTE_STRING_MAX).
	MostBytes = 4 << 20
	// mostElements, mostDepth and mostDevices are far above what libvirt writes for a machine that QEMU can run. A chain of images is the deepest part.
	mostElements = 100_000
	mostDepth    = 512
	mostDevices  = 1000
)

// Document is the XML of a domain.
type Document struct {
	Domain *libvirtxml.Domain
	// Root is the same XML, with the elements that libvirtxml does not know.
	Root *Element
	// Earlier is the number of documents of the same domain before this one in the file: virt-install prints the domain of the installation first.
	Earlier int
}

// Element is an element of a document.
type Element struct {
	// Name is the name, with a prefix for elements of libvirt's namespaces, such as qemu:commandline.
	Name string
	// Attributes are in the order of the document.
	Attributes []xml.Attr
	// Text is the text without white space at both ends.
	Text     string
	Children []*Element
}

// Parse reads the XML of a domain. If there are several documents, all of them must be of one domain, and the last one counts.
func Parse(raw []byte) (*Document, error) {
	if len(raw) > MostBytes {
		return nil, fmt.Errorf("the XML has %d bytes: no domain has more than %d MiB", len(raw), MostBytes>>20)
	}
	roots, err := readElements(raw)
	if err != nil {
		return nil, err
	}
	last := roots[len(roots)-1]
	for _, root := range roots {
		if root.Name != "domain" {
			return nil, fmt.Errorf("the root element is '%s': the XML of a domain begins with <domain>, see 'virsh dumpxml'", root.Name)
		}
		if name := root.Child("name").text(); name != last.Child("name").text() {
			return nil, fmt.Errorf("the XML has the domains '%s' and '%s': import them one by one", name, last.Child("name").text())
		}
	}
	if devices := last.Child("devices"); devices != nil && len(devices.Children) > mostDevices {
		return nil, fmt.Errorf("the domain has %d devices: at most %d are read", len(devices.Children), mostDevices)
	}
	var text bytes.Buffer
	if err := last.encode(xml.NewEncoder(&text)); err != nil {
		return nil, err
	}
	doc := &Document{Domain: &libvirtxml.Domain{}, Root: last, Earlier: len(roots) - 1}
	if err := doc.Domain.Unmarshal(text.String()); err != nil {
		return nil, fmt.Errorf("the XML is not a domain of libvirt: %w", err)
	}
	if doc.Domain.Devices == nil {
		doc.Domain.Devices = &libvirtxml.DomainDeviceList{}
	}
	completeHostDevices(doc.Domain.Devices.Hostdevs)
	return doc, nil
}

// completeHostDevices gives a kind to devices of the host whose kind libvirtxml does not know. It could not write them otherwise. No VM keeps such a device.
func completeHostDevices(list []libvirtxml.DomainHostdev) {
	for i := range list {
		d := &list[i]
		known := d.SubsysUSB != nil || d.SubsysSCSI != nil || d.SubsysSCSIHost != nil || d.SubsysPCI != nil || d.SubsysMDev != nil ||
			d.CapsStorage != nil || d.CapsMisc != nil || d.CapsNet != nil
		if !known {
			d.SubsysPCI = &libvirtxml.DomainHostdevSubsysPCI{}
		}
	}
}

// ReadTree reads the XML of one domain, without a check that libvirtxml can read it.
func ReadTree(raw []byte) (*Element, error) {
	roots, err := readElements(raw)
	if err != nil {
		return nil, err
	}
	return roots[0], nil
}

// readElements reads the trees of all root elements. The decoder knows no entities but XML's own five, so that a document cannot grow when it is read.
func readElements(raw []byte) (roots []*Element, err error) {
	decoder := xml.NewDecoder(bytes.NewReader(raw))
	var open []*Element
	var texts [][]byte // of the open elements
	elements := 0
	for {
		token, err := decoder.Token()
		switch {
		case errors.Is(err, io.EOF) && len(roots) == 0:
			return nil, errors.New("the XML has no element")
		case errors.Is(err, io.EOF):
			return roots, nil
		case err != nil:
			return nil, err
		}
		switch token := token.(type) {
		case xml.Directive:
			line, _ := decoder.InputPos()
			return nil, fmt.Errorf("line %d has a document type or another directive, which the XML of a domain never has", line)
		case xml.StartElement:
			if elements++; elements > mostElements || len(open) >= mostDepth {
				return nil, fmt.Errorf("the XML has more than %d elements, or elements deeper than %d", mostElements, mostDepth)
			}
			element := &Element{Name: qualifiedName(token.Name), Attributes: slices.Clone(token.Attr)}
			if len(open) == 0 {
				roots = append(roots, element)
			} else {
				parent := open[len(open)-1]
				parent.Children = append(parent.Children, element)
			}
			open, texts = append(open, element), append(texts, nil)
		case xml.EndElement:
			last := len(open) - 1
			open[last].Text = string(bytes.TrimSpace(texts[last]))
			open, texts = open[:last], texts[:last]
		case xml.CharData:
			if last := len(open) - 1; last >= 0 {
				texts[last] = append(texts[last], token...)
			}
		}
	}
}

// namespace begins the names of libvirt's own namespaces.
const namespace = "http://libvirt.org/schemas/domain/"

// qualifiedName returns a name with the prefix that libvirt writes for its own namespaces, such as 'qemu:'. Elements of other namespaces are metadata.
func qualifiedName(name xml.Name) string {
	rest, found := strings.CutPrefix(name.Space, namespace)
	if kind, _, _ := strings.Cut(rest, "/"); found && kind != "" {
		return kind + ":" + name.Local
	}
	return name.Local
}

// encode writes the element for libvirtxml, without metadata, whose namespaces belong to other programs.
func (e *Element) encode(to *xml.Encoder) error {
	if err := e.encodeTree(to); err != nil {
		return err
	}
	return to.Close()
}

func (e *Element) encodeTree(to *xml.Encoder) error {
	if e.Name == "metadata" {
		return nil
	}
	start := xml.StartElement{Name: xml.Name{Local: e.Name}}
	if kind, local, prefixed := strings.Cut(e.Name, ":"); prefixed {
		start.Name = xml.Name{Space: namespace + kind + "/1.0", Local: local}
	}
	for _, attribute := range e.Attributes {
		if attribute.Name.Space != "xmlns" && attribute.Name.Local != "xmlns" {
			start.Attr = append(start.Attr, xml.Attr{Name: xml.Name{Local: attribute.Name.Local}, Value: attribute.Value})
		}
	}
	if err := to.EncodeToken(start); err != nil {
		return err
	}
	if e.Text != "" {
		if err := to.EncodeToken(xml.CharData(e.Text)); err != nil {
			return err
		}
	}
	for _, child := range e.Children {
		if err := child.encodeTree(to); err != nil {
			return err
		}
	}
	return to.EncodeToken(start.End())
}

// Child returns the first child of a name; nil without one. e may be nil.
func (e *Element) Child(name string) *Element {
	if e == nil {
		return nil
	}
	at := slices.IndexFunc(e.Children, func(c *Element) bool { return c.Name == name })
	if at < 0 {
		return nil
	}
	return e.Children[at]
}

// Attribute returns the value of an attribute; empty without one. e may be nil.
func (e *Element) Attribute(name string) string {
	if e == nil {
		return ""
	}
	for _, attribute := range e.Attributes {
		if attribute.Name.Local == name {
			return attribute.Value
		}
	}
	return ""
}

func (e *Element) text() string {
	if e == nil {
		return ""
	}
	return e.Text
}

// Settings returns the settings of the element and of all below it, in the order of the document, each as a path and a value: "driver/@cache" and "none". An
// element without attributes and text below it is a setting, too. Paths begin below the element.
func (e *Element) Settings() (settings []Setting) {
	e.visitSettings("", func(s Setting) { settings = append(settings, s) })
	return settings
}

// Setting is an attribute or the text of an element.
type Setting struct{ Path, Value string }

// String returns the setting for reports, such as "driver cache='none'".
func (s Setting) String() string {
	path, attribute, _ := strings.Cut(s.Path, "@")
	words := strings.TrimSpace(strings.ReplaceAll(path, "/", " ") + attribute)
	if s.Value == "" {
		return words
	}
	return words + "='" + s.Value + "'"
}

func (e *Element) visitSettings(path string, visit func(Setting)) {
	for _, attribute := range e.Attributes {
		if attribute.Name.Space != "xmlns" && attribute.Name.Local != "xmlns" {
			visit(Setting{path + "@" + attribute.Name.Local, attribute.Value})
		}
	}
	if e.Text != "" || len(e.Attributes) == 0 && len(e.Children) == 0 {
		visit(Setting{strings.TrimSuffix(path, "/"), e.Text})
	}
	for _, child := range e.Children {
		child.visitSettings(path+child.Name+"/", visit)
	}
}
