package catalog

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/instancetype"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Annotations of the published catalogs with a name and a description for people. OpenShift's console reads annotationOpenShiftName of preferences.
const (
	annotationDisplayName   = prefix + "displayName"
	annotationDescription   = prefix + "description"
	annotationOpenShiftName = "openshift.io/display-name"
)

// Index lists the objects of a catalog. It is published beside the catalog's files, for users who choose from a list.
type Index struct {
	metav1.TypeMeta
	Instancetypes []Entry `json:"instancetypes"`
	Preferences   []Entry `json:"preferences"`
}

// indexKind is the kind of an Index document. A reader refuses a kind or an apiVersion that it does not know.
const indexKind = "CatalogIndex"

// Entry is an instancetype or a preference of an Index.
type Entry struct {
	Key
	DisplayName string            `json:"displayName,omitempty"`
	Description string            `json:"description,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	// Lifecycle is 'active', 'deprecated' or 'obsolete' at the time of the index. ObsoleteAfter is in RFC 3339.
	Lifecycle     string `json:"lifecycle"`
	ReplacedBy    string `json:"replacedBy,omitempty"`
	ObsoleteAfter string `json:"obsoleteAfter,omitempty"`
	// CPUs is the number of vCPUs of an instancetype, or the number that a preference requires; 0 if it has no such requirement.
	CPUs uint32 `json:"cpus,omitempty"`
	// Memory is the memory of an instancetype, or the memory that a preference requires; empty if it has no such requirement. It is text, because an index
	// may come from a stranger: apimachinery takes hours to parse some quantities. Bytes is the same amount.
	Memory string `json:"memory,omitempty"`
	Bytes  int64  `json:"bytes,omitempty"`
	GPUs   int    `json:"gpus,omitempty"`
	// HostDevices is the number of host devices that are not GPUs.
	HostDevices int `json:"hostDevices,omitempty"`
	// Architectures are the architectures that the object names. An empty list means any.
	Architectures []string `json:"architectures,omitempty"`
	// Features are words such as 'dedicated CPUs' and 'hugepages 2Mi'.
	Features []string `json:"features,omitempty"`
	// NeedsSpecialNode is true for an instancetype whose guests run only on nodes with its devices, huge pages, free CPUs or labels.
	NeedsSpecialNode bool `json:"-"`
	// Spec is the SHA-256 of the meaning of the spec: two objects with one digest make the same VMs.
	Spec string `json:"spec"`
}

// IndexOf returns the index of a catalog as of a time. Entries are in the order of their kinds, namespaces and names.
func IndexOf(objects []*Object, now time.Time) Index {
	index := Index{TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: indexKind}, Instancetypes: []Entry{}, Preferences: []Entry{}}
	instancetypes, preferences := splitByKind(objects)
	for _, o := range instancetypes {
		index.Instancetypes = append(index.Instancetypes, o.Entry(now))
	}
	for _, o := range preferences {
		index.Preferences = append(index.Preferences, o.Entry(now))
	}
	return index
}

// Entry returns the object as an index lists it as of a time.
func (o *Object) Entry(now time.Time) Entry {
	life := instancetype.ReadLifecycle(o, now)
	sum := sha256.Sum256([]byte(o.specContent()))
	e := Entry{
		Key: o.Key(), DisplayName: cmp.Or(o.Annotations[annotationDisplayName], o.Annotations[annotationOpenShiftName]),
		Description: o.Annotations[annotationDescription], Labels: o.Labels,
		Lifecycle: life.State, ReplacedBy: life.ReplacedBy, Spec: "sha256:" + hex.EncodeToString(sum[:]),
	}
	if !life.ObsoleteAfter.IsZero() {
		e.ObsoleteAfter = life.ObsoleteAfter.UTC().Format(time.RFC3339)
	}
	for _, c := range o.claimedArchitectures() {
		e.Architectures = append(e.Architectures, c.architecture)
	}
	e.fillInstancetype(o)
	e.fillPreference(o)
	return e
}

func (e *Entry) fillInstancetype(o *Object) {
	if o.Instancetype == nil {
		return
	}
	spec := o.Instancetype
	e.CPUs, e.GPUs, e.HostDevices = spec.CPU.Guest, len(spec.GPUs), len(spec.HostDevices)
	e.Memory, e.Bytes = spec.Memory.Guest.String(), spec.Memory.Guest.Value()
	if spec.CPU.DedicatedCPUPlacement != nil && *spec.CPU.DedicatedCPUPlacement {
		e.Features = append(e.Features, "dedicated CPUs")
	}
	if spec.CPU.IsolateEmulatorThread != nil && *spec.CPU.IsolateEmulatorThread {
		e.Features = append(e.Features, "isolated emulator thread")
	}
	if spec.CPU.NUMA != nil {
		e.Features = append(e.Features, "NUMA")
	}
	if spec.CPU.Realtime != nil {
		e.Features = append(e.Features, "realtime")
	}
	if pages := spec.Memory.Hugepages; pages != nil {
		e.Features = append(e.Features, "hugepages "+pages.PageSize)
	}
	if spec.LaunchSecurity != nil {
		e.Features = append(e.Features, "launch security")
	}
	if len(spec.NodeSelector) > 0 {
		e.Features = append(e.Features, "node selector")
	}
	e.NeedsSpecialNode = e.GPUs+e.HostDevices+len(e.Features) > 0
	if spec.Memory.OvercommitPercent > 0 {
		e.Features = append(e.Features, fmt.Sprintf("memory overcommitted by %d %%", spec.Memory.OvercommitPercent))
	}
}

func (e *Entry) fillPreference(o *Object) {
	if o.Preference == nil {
		return
	}
	if need := o.Preference.Requirements; need != nil {
		if need.CPU != nil {
			e.CPUs = need.CPU.Guest
		}
		if need.Memory != nil {
			e.Memory, e.Bytes = need.Memory.Guest.String(), need.Memory.Guest.Value()
		}
	}
	if firmware := o.Preference.Firmware; firmware != nil && (firmware.PreferredEfi != nil || firmware.DeprecatedPreferredUseEfi != nil) {
		e.Features = append(e.Features, "EFI")
	}
	if devices := o.Preference.Devices; devices != nil && devices.PreferredTPM != nil {
		e.Features = append(e.Features, "TPM")
	}
}

// Meets reports whether a VM can name both objects, and the instancetype meets the requirements of the preference. It does not try whether such a VM boots.
func Meets(a, b *Object) bool {
	both := joinSets(Pair(a, nil), Pair(b, nil))
	return both.Instancetype != nil && both.Preference != nil && a.sharesNamespace(b) && instancetype.Fits(both)
}

// Fields returns the leaves of an object's spec with their values, in the order of the API's types.
func (o *Object) Fields() (all []Field) {
	for _, f := range o.specLeaves() {
		all = append(all, Field{Path: f.path, Value: f.text})
	}
	return all
}

// Field is a leaf of a spec.
type Field struct {
	// Path starts with 'spec'.
	Path string
	// Value is JSON.
	Value string
}
