package datavolumes

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/objects"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	cdi "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Refusal is the error of a DataVolume that is not made until somebody corrects the VM or grants a right.
type Refusal struct{ condition.Cause }

func (r *Refusal) Error() string { return r.Message }

func refuse(reason, format string, a ...any) error {
	return &Refusal{condition.Cause{Reason: reason, Message: condition.OneLine(fmt.Sprintf(format, a...))}}
}

// Authorizer decides whether a DataVolume may be made for a VM. CDI asks the same about who creates a DataVolume, but that is Kiln's controller, which may
// create pods in all namespaces, and so may clone everything.
type Authorizer struct {
	// Live reads from the API server and asks it: a right may have been revoked a moment ago.
	Live client.Client
}

// Authorize replaces sourceRef of a DataVolume by the source that it leads to, and returns a *Refusal unless the ServiceAccount may clone the source. The
// source is replaced before the question, so that an edit of the DataSource cannot change what CDI copies. Sources in the namespace of the VM, and imports,
// need no right.
func (a Authorizer) Authorize(ctx context.Context, volume *cdi.DataVolume, account string) error {
	named, err := a.resolveSource(ctx, volume, account)
	if err != nil {
		return err
	}
	asked := volume.DeepCopy()
	// With these annotations CDI's function answers that the claim has its content already, without a right. Who may edit the DataVolume could remove them later,
	// and CDI would clone.
	delete(asked.Annotations, cdi.AnnPrePopulated)
	delete(asked.Annotations, cdi.AnnCheckStaticVolume)
	answer, err := asked.AuthorizeSA(volume.Namespace, volume.Name, proxy{ctx, a.Live, volume.Namespace, account}, volume.Namespace, account)
	switch {
	case err != nil && !errors.Is(err, cdi.ErrNoTokenOkay):
		return err
	case !answer.Allowed:
		return denied(volume, account, named)
	}
	return nil
}

// source is what a template names: a claim, a snapshot or a DataSource.
type source struct{ kind, namespace, name string }

// denied returns the refusal of a clone. About a DataSource it says the same if the DataSource does not exist: the author of a VM may not be allowed to know.
func denied(volume *cdi.DataVolume, account string, named source) error {
	format := "%s is not made: %s may not clone %s: let an administrator of namespace '%.63s' bind it to a Role with verb create on datavolumes/source of " +
		cdi.SchemeGroupVersion.Group
	if named.kind == cdi.DataVolumeDataSource {
		format = "%s is not made: %s may not clone what %s leads to, or that does not exist: let an administrator of namespace '%.63s' bind it to a Role with " +
			"verb create on datavolumes/source of " + cdi.SchemeGroupVersion.Group + " in the namespace of the claim or snapshot"
	}
	return refuse(v1alpha1.ReasonUnauthorizedDataVolumeCreate, format, quoted("DataVolume", "", volume.Name), quoted("ServiceAccount", volume.Namespace, account),
		quoted(named.kind, named.namespace, named.name), named.namespace)
}

// resolveSource writes the source of a clone into the DataVolume, with its namespace, and returns what the template names.
func (a Authorizer) resolveSource(ctx context.Context, volume *cdi.DataVolume, account string) (named source, err error) {
	invalid := func(format string, args ...any) error {
		return refuse(v1alpha1.ReasonFailedDataVolumeCreate, "%s is not made: "+format, append([]any{quoted("DataVolume", "", volume.Name)}, args...)...)
	}
	if ref := volume.Spec.SourceRef; ref != nil {
		switch {
		case volume.Spec.Source != nil:
			return named, invalid("its template has source and sourceRef: remove one of them")
		case ref.Kind != cdi.DataVolumeDataSource:
			return named, invalid("CDI knows no sourceRef of kind '%.63s', only '%s'", ref.Kind, cdi.DataVolumeDataSource)
		}
		named = source{cdi.DataVolumeDataSource, volume.Namespace, ref.Name}
		if ref.Namespace != nil && *ref.Namespace != "" {
			named.namespace = *ref.Namespace
		}
		found, err := a.readDataSource(ctx, named)
		switch {
		case err != nil:
			return named, err
		case found == nil && named.namespace == volume.Namespace:
			return named, invalid("%s does not exist: create it, or correct sourceRef of the template", quoted(named.kind, named.namespace, named.name))
		case found == nil:
			return named, denied(volume, account, named)
		}
		volume.Spec.Source, volume.Spec.SourceRef = clonedBy(found), nil
		if volume.Spec.Source == nil && named.namespace == volume.Namespace {
			return named, invalid("%s leads to no PersistentVolumeClaim or VolumeSnapshot yet: wait until it does, or correct it",
				quoted(named.kind, named.namespace, named.name))
		} else if volume.Spec.Source == nil {
			return named, denied(volume, account, named)
		}
	}
	of := volume.Spec.Source
	if of == nil {
		return named, nil // the claim has a data source of its own, which Kubernetes judges
	}
	var namespace *string
	var found source
	switch {
	case of.PVC != nil && of.Snapshot != nil: // CDI's function would ask about the claim only
		return named, invalid("its template has sources pvc and snapshot: remove one of them")
	case of.PVC != nil:
		namespace, found = &of.PVC.Namespace, source{"PersistentVolumeClaim", of.PVC.Namespace, of.PVC.Name}
	case of.Snapshot != nil:
		namespace, found = &of.Snapshot.Namespace, source{"VolumeSnapshot", of.Snapshot.Namespace, of.Snapshot.Name}
	default:
		return named, nil
	}
	if *namespace == "" {
		*namespace = cmp.Or(named.namespace, volume.Namespace)
	}
	found.namespace = *namespace
	if named.kind == "" || named.namespace == volume.Namespace { // a DataSource of another namespace must not tell where it leads to
		named = found
	}
	if len(validation.IsDNS1123Label(*namespace)) > 0 || len(validation.IsDNS1123Subdomain(found.name)) > 0 {
		return named, invalid("its source is %s, and no object can have this name", quoted(named.kind, named.namespace, named.name))
	}
	return named, nil
}

// readDataSource reads a DataSource; nil if it does not exist.
func (a Authorizer) readDataSource(ctx context.Context, named source) (*cdi.DataSource, error) {
	if len(validation.IsDNS1123Label(named.namespace)) > 0 || len(validation.IsDNS1123Subdomain(named.name)) > 0 {
		return nil, nil
	}
	found, err := objects.GetOrNil(ctx, a.Live, types.NamespacedName{Namespace: named.namespace, Name: named.name}, &cdi.DataSource{})
	if meta.IsNoMatchError(err) {
		return nil, nil
	}
	return found, err
}

// clonedBy returns the claim or the snapshot that a DataSource leads to; nil if it leads to none. CDI writes the end of a chain of DataSources into the status.
func clonedBy(found *cdi.DataSource) *cdi.DataVolumeSource {
	from := found.Spec.Source
	if from.DataSource != nil {
		from = found.Status.Source
	}
	switch {
	case from.PVC != nil:
		return &cdi.DataVolumeSource{PVC: from.PVC.DeepCopy()}
	case from.Snapshot != nil:
		return &cdi.DataVolumeSource{Snapshot: from.Snapshot.DeepCopy()}
	}
	return nil
}

// proxy answers what CDI's function asks.
type proxy struct {
	ctx                context.Context
	live               client.Client
	namespace, account string
}

// CreateSar asks the API server. Rights that are bound to a ServiceAccount that does not exist count for nobody: a name in the VM would be enough to get them.
func (p proxy) CreateSar(review *authorizationv1.SubjectAccessReview) (*authorizationv1.SubjectAccessReview, error) {
	if len(validation.IsDNS1123Subdomain(p.account)) > 0 {
		return review, nil
	}
	account, err := objects.GetOrNil(p.ctx, p.live, types.NamespacedName{Namespace: p.namespace, Name: p.account}, &corev1.ServiceAccount{})
	if err != nil || account == nil {
		return review, err
	}
	err = p.live.Create(p.ctx, review)
	return review, err
}

// GetNamespace does not look: whether a namespace exists is known after the right has been asked for, and then CDI says it.
func (p proxy) GetNamespace(name string) (*corev1.Namespace, error) {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, nil
}

// GetDataSource fails: Authorize has replaced sourceRef.
func (p proxy) GetDataSource(namespace, name string) (*cdi.DataSource, error) {
	return nil, fmt.Errorf("DataSource '%s/%s' was not resolved", namespace, name)
}
