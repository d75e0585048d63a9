// Package domainimport makes a VirtualMachine of a libvirt domain, with the hardware record that keeps what the guest found, and a report that names each
// element of the domain.
package domainimport

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/kilnvm/kiln/internal/workbench/catalogs"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
	"github.com/kilnvm/kiln/pkg/catalog"
	"github.com/kilnvm/kiln/pkg/domain/imported"
	"github.com/kilnvm/kiln/pkg/record"
	"github.com/kilnvm/kiln/pkg/render"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// Options are the decisions of the user.
type Options struct {
	imported.Options
	// Sizes maps the target names of disks, such as vda, to the sizes of their claims. A claim without a size is not made.
	Sizes map[string]resource.Quantity
	// StorageClass of the claims; empty for the default of the cluster.
	StorageClass string
	// Catalog has the instancetypes and preferences that the VM may use; nil for explicit CPUs and memory. RefusedByRuntime are the reasons of
	// catalogs.RefusedByRuntime.
	Catalog          *catalogs.Catalog
	RefusedByRuntime map[catalog.Key]string
	// Apply means that Import.Apply creates the objects: the report has no step for it.
	Apply bool
}

// Import is a domain as objects of a cluster.
type Import struct {
	// VM is nil if another program made the VM.
	VM *unstructured.Unstructured
	// Hardware keeps what the fields of the VM cannot say. An administrator creates it before the VM starts. It is nil if nothing can be kept.
	Hardware *v1alpha1.GuestHardware
	// Claims are the claims to fill, of the disks whose sizes are known.
	Claims []*corev1.PersistentVolumeClaim
	Report Report
	// Next is the complete domain of the next boot, with the assumed host resources of a workbench.
	Next *libvirtxml.Domain
	// Warnings are the warnings of admission.
	Warnings []string

	// explicit is the VMI of the next boot after stage 1.
	explicit *v1.VirtualMachineInstance
}

// Make imports a domain. If admission or the renderer refuses the VM, the error is a workbench.Refusal.
func Make(ctx context.Context, bench *workbench.Bench, doc *imported.Document, o Options) (*Import, error) {
	reading, err := imported.Read(doc, o.Options)
	if err != nil {
		return nil, err
	}
	object, err := manifest.OfTyped(reading.VM)
	if err != nil {
		return nil, err
	}
	r := &repairer{object: object, judged: object.DeepCopy()}
	for range mostRepairs {
		done, failed := makeOnce(ctx, bench, doc, reading, r, o)
		var refusal *workbench.Refusal
		switch {
		case failed == nil && o.Catalog != nil:
			return (&chooser{bench: bench, doc: doc, reading: reading, options: o, base: done, plain: r}).choose(ctx)
		case !errors.As(failed, &refusal) || !r.repair(refusal.Guest.Verdict.Errors):
			return done, failed
		}
		err = failed
	}
	return nil, err
}

// mostRepairs is how often a VM is judged again without what was refused. A VM has fewer fields that depend on each other.
const mostRepairs = 10

// makeOnce judges and renders the VM as it is now.
func makeOnce(ctx context.Context, bench *workbench.Bench, doc *imported.Document, reading *imported.Reading, r *repairer, o Options) (*Import, error) {
	guest, err := reviewVM(ctx, bench, r.judged.DeepCopy(), o.Catalog)
	if err != nil {
		return nil, err
	}
	done, err := adoptDomain(ctx, bench, doc, r.withReasons(reading), guest)
	if err != nil {
		return nil, err
	}
	done.Report.VM, done.Report.Notes = reading.VM.Name, append(done.Report.Notes, r.notes...)
	done.VM = r.object.DeepCopy()
	done.VM.SetNamespace(o.Namespace)
	if done.Hardware != nil {
		done.Hardware.Namespace = o.Namespace
	}
	done.Claims = makeClaims(done.Report.Sources, o)
	done.Report.Steps = stepsOf(done, done.Report.Sources, secretSteps(doc.Root), o)
	return done, nil
}

// MakeRecord returns the hardware record of a VM that another program made of a domain, such as virt-v2v or Forklift, and the report. The Import has no VM and
// no claims. If the renderer refuses the VM, the error is a workbench.Refusal.
func MakeRecord(ctx context.Context, bench *workbench.Bench, doc *imported.Document, guest workbench.Reviewed) (*Import, error) {
	reading, err := imported.Match(doc, guest.Guest.Explicit)
	if err != nil {
		return nil, err
	}
	done, err := adoptDomain(ctx, bench, doc, reading, guest)
	if err == nil && done.Hardware != nil {
		done.Report.Steps = []Step{{Text: "create the GuestHardware as an administrator before the VM starts for the first time"}}
	}
	return done, err
}

// adoptDomain records the hardware of a domain for a reviewed VM, and compares the domain with its next boot.
func adoptDomain(ctx context.Context, bench *workbench.Bench, doc *imported.Document, reading *imported.Reading, guest workbench.Reviewed) (*Import, error) {
	present := *reading
	present.Sources = slices.DeleteFunc(slices.Clone(reading.Sources), func(s imported.Source) bool { return !hasDevice(guest.Guest.Explicit, s.Device) })
	reading = &present
	machine, notes, err := bench.Machine(ctx, guest, workbench.Placing{}, nil)
	if err != nil {
		return nil, err
	}
	machine.Machine.Host.Machines = nil // the machine types of the future host are not known
	underKubeVirt := guest.Guest.Input.Cluster.Limits.KubeVirtGuests
	adopted, errs := render.Adopt(machine.Machine, reading.Domain, placesOf(reading), !underKubeVirt)
	if err := workbench.RefusalOf(guest, "", errs); err != nil {
		return nil, err
	}
	if err := record.Check(&adopted.Record); err != nil {
		return nil, fmt.Errorf("the hardware of the domain cannot be recorded: %w", err)
	}
	complete := machine.Machine
	complete.Frozen = &adopted.Record
	full, errs := render.UnderProfiles(complete, nil)
	if err := workbench.RefusalOf(guest, "", errs); err != nil {
		return nil, err
	}
	report, err := makeReport(doc, reading, adopted, full.Documents.Domain)
	if err != nil {
		return nil, err
	}
	report.VM = guest.GetName()
	done := &Import{Report: report, Next: full.Documents.Domain, Warnings: append(guest.Verdict.Warnings, notes.Warnings...),
		explicit: guest.Guest.Explicit}
	if !underKubeVirt {
		done.Report.Notes = append(done.Report.Notes, omittedNotes(adopted.Record.OmittedDefaults)...)
		done.Hardware = render.GuestHardware(guest.Guest.Explicit, adopted.Record)
		return done, nil
	}
	done.Report.Notes = append(done.Report.Notes, kubeVirtRenders)
	if placesOf(reading) != render.SamePlaces {
		return done, nil // nothing that KubeVirt's guests keep
	}
	text, err := reading.Domain.Marshal()
	if err != nil {
		return nil, err
	}
	places, err := workbench.CapturePlaces(guest, []byte(text), reading.Domain)
	if err != nil {
		return nil, err
	}
	done.Hardware = places
	return done, nil
}

// hasDevice reports whether a VMI has a disk, filesystem or interface. Admission may have refused one that the domain has.
func hasDevice(vmi *v1.VirtualMachineInstance, key string) bool {
	devices := &vmi.Spec.Domain.Devices
	kind, name := record.SplitKey(key)
	switch kind {
	case "disk":
		return slices.ContainsFunc(devices.Disks, func(d v1.Disk) bool { return d.Name == name })
	case "filesystem":
		return slices.ContainsFunc(devices.Filesystems, func(f v1.Filesystem) bool { return f.Name == name })
	}
	return slices.ContainsFunc(devices.Interfaces, func(i v1.Interface) bool { return i.Name == name })
}

// kubeVirtRenders is the note about a VM that KubeVirt runs.
const kubeVirtRenders = "KubeVirt renders this guest: the record has the machine type, the CPU and the addresses, and the report compares the domain with " +
	"what Kiln would render"

// placesOf says what the addresses of the domain mean.
func placesOf(reading *imported.Reading) render.Places {
	switch {
	case reading.OtherBoard:
		return render.OtherBoard
	case reading.NoAddresses:
		return render.Unplaced
	}
	return render.SamePlaces
}

// defaultNamespace is the namespace in which a VM without one is judged.
const defaultNamespace = "default"

// reviewVM runs stage 1 on the VM, which may refer to objects of a catalog; nil for none. It returns a Refusal if admission rejects the VM.
func reviewVM(ctx context.Context, bench *workbench.Bench, object *unstructured.Unstructured, catalog *catalogs.Catalog) (workbench.Reviewed, error) {
	object.SetNamespace(cmp.Or(object.GetNamespace(), defaultNamespace))
	if catalog == nil {
		catalog = &catalogs.Catalog{}
	}
	in, err := catalog.ReviewInputs(object)
	if err != nil {
		return workbench.Reviewed{}, err
	}
	all, err := bench.Review(ctx, in, nil)
	if err != nil {
		return workbench.Reviewed{}, err
	}
	r := all.Objects[0]
	switch {
	case r.Fault != nil:
		return r, r.Fault
	case !r.Verdict.Allowed():
		return r, &workbench.Refusal{Guest: r}
	}
	return r, nil
}

// makeClaims returns the claims of the disks whose sizes are known.
func makeClaims(sources []imported.Source, o Options) (claims []*corev1.PersistentVolumeClaim) {
	for _, source := range sources {
		_, disk := record.SplitKey(source.Device)
		size, known := o.Sizes[disk]
		if source.Claim == "" || !known {
			continue
		}
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: source.Claim, Namespace: o.Namespace}}
		claim.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"))
		claim.Spec = corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: size}},
		}
		if o.StorageClass != "" {
			claim.Spec.StorageClassName = ptr.To(o.StorageClass)
		}
		claims = append(claims, claim)
	}
	return claims
}
