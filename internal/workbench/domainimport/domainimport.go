// Package domainimport makes a VirtualMachine of a libvirt domain, with the hardware record that keeps what the guest found, and a report that names each
// element of the domain.
package domainimport

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/kilnvm/kiln/internal/workbench/catalogs"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
	"github.com/kilnvm/kiln/pkg/domain/imported"
	"github.com/kilnvm/kiln/pkg/record"
	"github.com/kilnvm/kiln/pkg/render"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"libvirt.org/go/libvirtxml"
)

// Options are the decisions of the user.
type Options struct {
	imported.Options
	// Sizes maps the target names of disks, such as vda, to the sizes of their claims. A claim without a size is not made.
	Sizes map[string]resource.Quantity
	// StorageClass of the claims; empty for the default of the cluster.
	StorageClass string
}

// Import is a domain as objects of a cluster.
type Import struct {
	VM *unstructured.Unstructured
	// Hardware keeps what the fields of the VM cannot say. An administrator creates it before the VM starts.
	Hardware *v1alpha1.GuestHardware
	// Claims are the claims to fill, of the disks whose sizes are known.
	Claims []*corev1.PersistentVolumeClaim
	Report Report
	// Next is the complete domain of the next boot, with the assumed host resources of a workbench.
	Next *libvirtxml.Domain
	// Warnings are the warnings of admission.
	Warnings []string
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
		done, err := makeOnce(ctx, bench, doc, reading, r, o)
		var refusal *workbench.Refusal
		if !errors.As(err, &refusal) || !r.repair(refusal.Guest.Verdict.Errors) {
			return done, err
		}
	}
	return nil, fmt.Errorf("admission still refuses the VM after %d repairs", mostRepairs)
}

// mostRepairs is how often a VM is judged again without what was refused. A VM has fewer fields that depend on each other.
const mostRepairs = 10

// makeOnce judges and renders the VM as it is now.
func makeOnce(ctx context.Context, bench *workbench.Bench, doc *imported.Document, reading *imported.Reading, r *repairer, o Options) (*Import, error) {
	guest, err := reviewVM(ctx, bench, r.judged.DeepCopy())
	if err != nil {
		return nil, err
	}
	machine, notes, err := bench.Machine(ctx, guest, workbench.Placing{}, nil)
	if err != nil {
		return nil, err
	}
	machine.Machine.Host.Machines = nil // the machine types of the future host are not known
	adopted, errs := render.Adopt(machine.Machine, reading.Domain, placesOf(reading))
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
	report.Notes = append(report.Notes, r.notes...)
	object := r.object.DeepCopy()
	object.SetNamespace(o.Namespace)
	vmi := guest.Guest.Explicit.DeepCopy()
	vmi.Namespace = o.Namespace
	done := &Import{VM: object, Hardware: render.GuestHardware(vmi, adopted.Record), Report: report, Next: full.Documents.Domain}
	done.Warnings = append(guest.Verdict.Warnings, notes.Warnings...)
	done.Claims = makeClaims(reading, o)
	done.Report.Steps = stepsOf(done, reading.Sources)
	return done, nil
}

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

// reviewVM runs stage 1 on the VM. It returns a Refusal if admission rejects the VM.
func reviewVM(ctx context.Context, bench *workbench.Bench, object *unstructured.Unstructured) (workbench.Reviewed, error) {
	object.SetNamespace(cmp.Or(object.GetNamespace(), "default"))
	in, err := catalogs.Catalog{}.ReviewInputs(object)
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
func makeClaims(reading *imported.Reading, o Options) (claims []*corev1.PersistentVolumeClaim) {
	for _, source := range reading.Sources {
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
