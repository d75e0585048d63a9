package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/workbench/crdschema"
	"github.com/kilnvm/kiln/pkg/instancetype"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	v1 "kubevirt.io/api/core/v1"
)

// Dump has the objects that were copied from a cluster into files. It keeps the text of VMs and VMIs, of which there may be thousands, and decodes some at a
// time.
type Dump struct {
	// Inputs has the other objects that Kiln judges or reads, as objects that were stored. Named also has an object with a Fault for each file or document
	// that cannot be read.
	Inputs
	// Empty are the files that have no object of Kubernetes.
	Empty []string
	// NoObjects is the number of items of lists that are no objects of Kubernetes, and FirstNoObject the position of the first one, FILE:LINE.
	NoObjects     int
	FirstNoObject string

	guests []source
	// packed has the kinds of packedKinds.
	packed *objects.Packed
	files  Files
}

// ReadDump reads files as ReadNames does, but leaves out the kinds that Kiln neither judges nor reads, such as Pods. It fails if a name does not exist.
func (f Files) ReadDump() (*Dump, error) {
	known, err := crdschema.Scheme()
	if err != nil {
		return nil, err
	}
	d, at := &Dump{files: f, packed: objects.NewPacked(known)}, &Positions{}
	for _, name := range f.Names {
		paths, err := expandName(name)
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			d.addFile(path, at)
		}
	}
	var all []*unstructured.Unstructured
	for _, one := range f.SetNamespaces(d.Named) {
		if one.Fault == nil {
			all = append(all, one.Unstructured)
		}
	}
	d.Reader = objects.Layers{objects.New(known, AddNamespaceLabels(all)...), d.packed}
	return d, nil
}

// addFile adds the objects of one file, or of one archive of Velero.
func (d *Dump) addFile(path string, at *Positions) {
	if isArchive(path) {
		if err := d.addArchive(path, at); err != nil {
			d.Named = append(d.Named, unreadableObject(path, err))
		}
		return
	}
	name, raw, err := d.files.readRaw(path)
	if err != nil && !errors.Is(err, ErrKustomization) {
		d.Named = append(d.Named, unreadableObject(name, err))
		return
	}
	found := false
	for _, document := range splitDocuments(name, raw, at) {
		items, isList := document.splitList()
		if !isList {
			items = []source{document}
		}
		for _, item := range items {
			isObject := d.addItem(item)
			if isList && !isObject {
				if d.NoObjects++; d.NoObjects == 1 {
					d.FirstNoObject = fmt.Sprintf("%s:%d", item.file, item.line)
				}
			}
			found = isObject || found
		}
	}
	if !found {
		d.Empty = append(d.Empty, name)
	}
}

// addItem adds the objects of one document, or of one item of a list. It reports whether the document is an object of Kubernetes, or cannot be read.
func (d *Dump) addItem(s source) bool {
	kind := s.guessKind()
	isGuest := slices.Contains(guestKinds, kind)
	switch {
	case isGuest && len(s.text) <= MaxObjectBytes:
		s.text = bytes.Clone(s.text) // the rest of the file is not kept
		d.guests = append(d.guests, s)
		return true
	case kind != "" && !isGuest && !keptKinds[kind] && !strings.HasSuffix(kind, "List"):
		return true
	}
	found := false
	for _, one := range s.decodeDocument() {
		switch {
		case errors.Is(one.Fault, errNoKind), errors.Is(one.Fault, errNoObject):
			continue
		case one.Fault != nil:
			d.Named = append(d.Named, one)
		case slices.Contains(guestKinds, one.GetKind()): // of a list that is written in another form than kubectl's
			raw, err := one.MarshalJSON()
			if err == nil {
				d.guests = append(d.guests, source{file: one.file, text: raw, line: one.LineInFile(""), json: true, Places: one.Places})
			}
		case packedKinds[one.GetKind()]:
			one = d.files.SetNamespaces([]Object{one.asStored()})[0]
			if one.Fault == nil {
				one.SetManagedFields(nil)
				one.Fault = d.packed.Add(one.Unstructured)
			}
			if one.Fault != nil {
				d.Named = append(d.Named, one)
			}
		case keptKinds[one.GetKind()]:
			d.Named = append(d.Named, one.asStored())
		}
		found = true
	}
	return found
}

// asStored converts an object to the version that the webhook gets. It has a Fault if that fails.
func (o Object) asStored() Object {
	if err := o.ConvertVersion(); err != nil {
		o.Fault = err
	}
	o.Stored = true
	return o
}

// NextGuests decodes the next VMs and VMIs, at most n; none at the end.
func (d *Dump) NextGuests(n int) (page []Object) {
	n = min(n, len(d.guests))
	decoded := make([][]Object, n)
	var run errgroup.Group
	run.SetLimit(runtime.GOMAXPROCS(0)) // parsing YAML takes most of the time of a run that computes little
	for i, s := range d.guests[:n] {
		run.Go(func() error {
			for _, one := range s.decodeDocument() {
				if one.Fault == nil {
					one = one.asStored()
				}
				decoded[i] = append(decoded[i], one)
			}
			return nil
		})
	}
	_ = run.Wait() // an object that cannot be decoded has a Fault
	page = slices.Concat(decoded...)
	d.guests = d.guests[n:]
	return d.files.SetNamespaces(page)
}

// guestKinds are the kinds whose objects a dump decodes late.
var guestKinds = []string{v1.VirtualMachineGroupVersionKind.Kind, v1.VirtualMachineInstanceGroupVersionKind.Kind}

// packedKinds are the kinds of which a dump has as many objects as VMs, or more. They are read and not judged, so they are kept as JSON, and are not in Named.
var packedKinds = map[string]bool{"ControllerRevision": true, "GuestHardware": true}

// keptKinds are the other kinds that are judged, or read when a VM is judged or its CPU is checked.
var keptKinds = map[string]bool{
	instancetype.Kinds.Namespaced: true, instancetype.Kinds.Cluster: true, instancetype.PreferenceKinds.Namespaced: true,
	instancetype.PreferenceKinds.Cluster: true, "VirtualMachineInstancePreset": true, "KubeVirt": true,
	"DataSource": true, "DataVolume": true, "VolumeSnapshot": true, "PersistentVolumeClaim": true,
	"ControllerRevision": true, "Namespace": true, "Deployment": true,
	v1alpha1.KindGuestPolicy: true, v1alpha1.KindGuestProfile: true, v1alpha1.KindClusterGuestProfile: true, v1alpha1.KindFrontendProfile: true,
	v1alpha1.KindGuestPolicyException: true, "GuestHardware": true, "Node": true,
	"HostProfile": true,
}

// keyKind matches the lines of a document, or of an item of a list, that name a kind.
var keyKind = regexp.MustCompile(`(?m)^([ -]*)kind:[ \t]+["']?(\w+)["']?[ \t\r]*$`)

// guessKind returns the kind of a document without parsing it; empty if that is not certain enough. A nested kind is indented deeper than the object's.
func (s source) guessKind() string {
	if s.json {
		var object metav1.TypeMeta
		if json.Unmarshal(s.text, &object) != nil {
			return ""
		}
		return object.Kind
	}
	depth := len(s.text) - len(bytes.TrimLeft(s.text, " -"))
	kind := ""
	for _, found := range keyKind.FindAllSubmatch(s.text, -1) {
		if len(found[1]) != depth {
			continue
		}
		if kind != "" {
			return ""
		}
		kind = string(found[2])
	}
	return kind
}
