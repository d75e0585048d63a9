package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/clusterconfig"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// What administrators say: the configuration of the cluster, and host profiles. Both are those of flags, else of the place that the
// VM comes from. Who may see a VM may often not see these: then the answer goes without, and says so.

// settings are what of it has been read, so that each is read and warned of once.
type settings struct {
	configuration *clusterconfig.Reading
	profiles      *[]v1alpha1.HostProfile
}

// configuration is the cluster's: that of --config, else of the KubeVirt object among the files or in the cluster, else
// KubeVirt's defaults.
func (o *options) configuration(ctx context.Context, in inputs) (clusterconfig.Reading, error) {
	if known := o.settings.configuration; known != nil {
		return *known, nil
	}
	c, err := o.readConfiguration(ctx, in.reader)
	if err == nil && (o.config != "" || in.cluster != nil) { // two files may have two
		o.settings.configuration = &c
	}
	return c, err
}

func (o *options) readConfiguration(ctx context.Context, reader client.Reader) (clusterconfig.Reading, error) {
	read, err := clusterconfig.Read(ctx, o.config, reader)
	if o.config == "" && apierrors.IsForbidden(err) {
		fmt.Fprintf(o.ErrOut, "Warning: the cluster's configuration is not read, KubeVirt's defaults are taken; --config FILE names another: %v\n", err)
		return clusterconfig.Reading{Cluster: config.Default()}, nil
	}
	if o.config != "" { // those of the KubeVirt object are the webhook's to log
		for _, warning := range read.Warnings {
			fmt.Fprintf(o.ErrOut, "Warning: %s: %s\n", o.config, warning)
		}
	}
	return read, err
}

// hostProfiles are those of --profile, else those among the files or in the cluster.
func (o *options) hostProfiles(ctx context.Context, in inputs) ([]v1alpha1.HostProfile, error) {
	if known := o.settings.profiles; known != nil {
		return *known, nil
	}
	var list v1alpha1.HostProfileList
	var err error
	switch {
	case len(o.profiles) > 0:
		list.Items, err = o.readProfiles()
	default:
		err = in.reader.List(ctx, &list)
	}
	switch {
	case apierrors.IsForbidden(err):
		fmt.Fprintf(o.ErrOut, "Warning: the cluster's HostProfiles are not read, so that none counts; --profile FILE names some: %v\n", err)
	case meta.IsNoMatchError(err): // the cluster has none
	case err != nil:
		return nil, err
	}
	if len(o.profiles) > 0 || in.cluster != nil {
		o.settings.profiles = &list.Items
	}
	return list.Items, nil
}

// readProfiles reads the files of --profile, judged by the schema of the kind as an API server would.
func (o *options) readProfiles() ([]v1alpha1.HostProfile, error) {
	known, err := scheme()
	if err != nil {
		return nil, err
	}
	objects, err := o.read(o.profiles)
	if err != nil {
		return nil, err
	}
	profiles := make([]v1alpha1.HostProfile, len(objects))
	checked := schemas{}
	for i, object := range objects {
		if object.fault != nil {
			return nil, fmt.Errorf("--profile: %w", object.fault)
		}
		if kind := object.GroupVersionKind(); kind != v1alpha1.GroupVersion.WithKind("HostProfile") {
			return nil, fmt.Errorf("--profile: %s holds a %s, want HostProfiles of %s", object.file, kind.Kind, v1alpha1.GroupVersion)
		}
		mistakes, err := checked.check(known, object.Unstructured)
		if err == nil && len(mistakes) > 0 {
			err = mistakes.ToAggregate()
		}
		err = errors.Join(err, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &profiles[i]))
		if err != nil {
			return nil, fmt.Errorf("--profile: HostProfile %s: %w", object.GetName(), err)
		}
		if mistakes := backend.Mistakes(&profiles[i].Spec, field.NewPath("spec")); len(mistakes) > 0 {
			return nil, fmt.Errorf("--profile: HostProfile %s: %w", object.GetName(), mistakes.ToAggregate())
		}
	}
	return profiles, nil
}

// elsewhere tells of profiles that may be for the guest's host, which nobody has described: without --host no machine has labels.
func (o *options) elsewhere(profiles []v1alpha1.HostProfile, guest labels.Set) {
	var names []string
	for _, p := range profiles {
		if p.Spec.NodeSelector != nil && mayBeFor(p.Spec.VMISelector, guest) {
			names = append(names, p.Name)
		}
	}
	if len(names) > 0 && !o.told {
		o.told = true
		fmt.Fprintf(o.ErrOut, "Warning: HostProfiles that select machines by labels are for hosts of --host alone: %q\n", slices.Sorted(slices.Values(names)))
	}
}

// mayBeFor tells whether a selector takes a guest; an absent one takes all. One that cannot be read takes none.
func mayBeFor(selector *metav1.LabelSelector, guest labels.Set) bool {
	if selector == nil {
		return true
	}
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && parsed.Matches(guest)
}
