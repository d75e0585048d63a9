package cli

import (
	"fmt"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"k8s.io/apimachinery/pkg/runtime"
)

// hostProfiles reads the files of --profile, judged by the schema of the kind as an API server would.
func (o *options) hostProfiles() ([]v1alpha1.HostProfile, error) {
	if len(o.profiles) == 0 {
		return nil, nil
	}
	known, err := scheme()
	if err != nil {
		return nil, err
	}
	objects, err := o.read(o.profiles, texts{})
	if err != nil {
		return nil, err
	}
	var profiles []v1alpha1.HostProfile
	checked := schemas{}
	for _, object := range objects {
		if kind := object.GroupVersionKind(); kind != v1alpha1.GroupVersion.WithKind("HostProfile") {
			return nil, fmt.Errorf("--profile: %s holds a %s, want HostProfiles of %s", object.file, kind.Kind, v1alpha1.GroupVersion)
		}
		mistakes, err := checked.check(known, object.Unstructured)
		if err == nil && len(mistakes) > 0 {
			err = mistakes.ToAggregate()
		}
		if err != nil {
			return nil, fmt.Errorf("--profile: HostProfile %s: %w", object.GetName(), err)
		}
		var profile v1alpha1.HostProfile
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &profile); err != nil {
			return nil, fmt.Errorf("--profile: HostProfile %s: %w", object.GetName(), err)
		}
		profiles = append(profiles, profile)
	}
	return profiles, nil
}
