package profile

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/internal/message"
	"github.com/kilnvm/kiln/pkg/nearest"
	"github.com/kilnvm/kiln/pkg/validate"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	strictjson "sigs.k8s.io/json"
)

// Read reads a GuestProfile or ClusterGuestProfile from JSON. revision is the name of the ControllerRevision that holds it, or empty. The error names the path
// of each mistake. Read checks everything, because the webhook may never have seen the profile.
func Read(revision string, data []byte) (*Profile, error) {
	p, errs := Check(revision, data)
	if len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	return p, nil
}

// Check is Read with the mistakes as field errors. The profile is nil if there are any.
func Check(revision string, data []byte) (*Profile, field.ErrorList) {
	if !json.Valid(data) {
		return nil, field.ErrorList{field.Forbidden(nil, "must be JSON").WithOrigin("profile/object")}
	}
	// Before anything is decoded: a quantity such as 1e-1000000000 takes hours to parse.
	if over := validate.Counts(data); over != nil {
		return nil, field.ErrorList{over}
	}
	var object profileJSON[json.RawMessage]
	if err := strictjson.UnmarshalCaseSensitivePreserveInts(data, &object); err != nil {
		return nil, field.ErrorList{typeError(data, reflect.TypeOf(object), nil, err)}
	}
	r := reader{profile: &Profile{Kind: object.Kind, Namespace: object.Metadata.Namespace, Name: object.Metadata.Name, Revision: revision}}
	r.checkKind(object.TypeMeta)
	if len(r.errs) == 0 {
		r.readSpec(object.Spec)
	}
	if len(r.errs) > 0 {
		return nil, r.errs
	}
	return r.profile, nil
}

// profileJSON is the JSON of a profile. S has the fields of the spec that are read.
type profileJSON[S any] struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	} `json:"metadata"`
	Spec S `json:"spec"`
}

// ReadReferences returns a profile with only its kind, namespace and name, and the references of its spec.extends, even if other fields have mistakes. Check
// must have read the same data before, because it limits the number of references.
func ReadReferences(data []byte) (of Profile, extends []v1alpha1.ProfileReference) {
	var object profileJSON[struct {
		Extends []v1alpha1.ProfileReference `json:"extends"`
	}]
	if strictjson.UnmarshalCaseSensitivePreserveInts(data, &object) != nil || len(object.Spec.Extends) > maxExtends {
		return Profile{}, nil
	}
	return Profile{Kind: object.Kind, Namespace: object.Metadata.Namespace, Name: object.Metadata.Name}, object.Spec.Extends
}

// reader collects the mistakes of one profile.
type reader struct {
	profile *Profile
	errs    field.ErrorList
}

var (
	specPath     = field.NewPath("spec")
	templatePath = specPath.Child("template")
)

func (r *reader) checkKind(meta metav1.TypeMeta) {
	kinds := []string{v1alpha1.KindGuestProfile, v1alpha1.KindClusterGuestProfile}
	if version := v1alpha1.GroupVersion.String(); meta.APIVersion != version {
		r.addError(field.NotSupported(field.NewPath("apiVersion"), message.Short(meta.APIVersion), []string{version}).WithOrigin("profile/object"))
	}
	if meta.Kind != kinds[0] && meta.Kind != kinds[1] {
		r.addError(field.NotSupported(field.NewPath("kind"), message.Short(meta.Kind), kinds).WithOrigin("profile/object"))
	}
	if r.profile.Name == "" {
		r.addError(field.Required(field.NewPath("metadata", "name"), "").WithOrigin("profile/object"))
	}
}

// maxSpec is the size of a spec in bytes of JSON. A review may read hundreds of profiles, and the author of a profile decides what it costs. Large data, such
// as user data of cloud-init, belongs into a Secret that the profile names.
const maxSpec = 64 << 10

// readSpec reads the spec, and then its parts, each only if it could be decoded.
func (r *reader) readSpec(raw json.RawMessage) {
	if len(raw) > maxSpec {
		r.addError(field.TooLong(specPath, "", maxSpec).WithOrigin("profile/limit"))
		return
	}
	var spec v1alpha1.ClusterGuestProfileSpec
	if r.profile.Kind == v1alpha1.KindClusterGuestProfile {
		r.decodeStrictly(raw, &spec, specPath)
	} else {
		r.decodeStrictly(raw, &spec.GuestProfileSpec, specPath)
	}
	r.profile.Spec, r.profile.NamespaceSelector = spec.GuestProfileSpec, spec.NamespaceSelector
	r.profile.selector = r.readSelector(spec.Selector, specPath.Child("selector"))
	r.profile.namespaces = r.readSelector(spec.NamespaceSelector, specPath.Child("namespaceSelector"))
	r.checkExtends()
	r.checkMetadata()
	template := r.profile.vmiWithMetadata()
	r.decodeStrictly(spec.Template.Spec.Raw, &template.Spec, templatePath.Child("spec"))
	r.checkCommonCPU(spec.CommonCPU, len(raw), template)
	if len(r.errs) > 0 {
		return
	}
	r.profile.settings, r.errs = compileTemplate(template, templatePath)
	tieFeatures(r.profile.settings, template)
}

// vmiWithMetadata returns a VMI that has the labels and annotations of the template.
func (p *Profile) vmiWithMetadata() *v1.VirtualMachineInstance {
	vmi, metadata := &v1.VirtualMachineInstance{}, p.Spec.Template.Metadata
	vmi.Labels, vmi.Annotations = maps.Clone(metadata.Labels), maps.Clone(metadata.Annotations)
	return vmi
}

// readSelector returns nil for a selector that is absent: it is never asked.
func (r *reader) readSelector(from *metav1.LabelSelector, at *field.Path) labels.Selector {
	if from == nil {
		return nil
	}
	selector, err := metav1.LabelSelectorAsSelector(from)
	if err != nil {
		r.addError(field.Forbidden(at, message.Short(err.Error())).WithOrigin("profile/selector"))
	}
	return selector
}

// maxExtends and maxPriority repeat limits of the schema, for objects that were written without it.
const (
	maxExtends  = 16
	maxPriority = 1_000_000_000
)

// checkExtends checks the form of the names of bases. Judge reports whether they exist.
func (r *reader) checkExtends() {
	p, at := r.profile, specPath.Child("extends")
	if priority := p.Spec.Priority; priority < -maxPriority || priority > maxPriority {
		r.addError(field.Invalid(specPath.Child("priority"), priority,
			fmt.Sprintf("must be between %d and %d, inclusive", -maxPriority, maxPriority)).WithOrigin("profile/priority"))
	}
	if len(p.Spec.Extends) > maxExtends {
		r.addError(field.TooMany(at, len(p.Spec.Extends), maxExtends).WithOrigin("profile/extends-count"))
	}
	kinds := []string{v1alpha1.KindGuestProfile, v1alpha1.KindClusterGuestProfile}
	if p.Kind == v1alpha1.KindClusterGuestProfile {
		kinds = kinds[1:] // VMIs of all namespaces would get what one namespace says
	}
	for i, base := range p.Spec.Extends {
		if base.Kind != "" && !slices.Contains(kinds, base.Kind) {
			r.addError(nearest.Unsupported(at.Index(i).Child("kind"), message.Short(base.Kind), kinds).WithOrigin("profile/extends-kind"))
		}
		if base.Name == "" {
			r.addError(field.Required(at.Index(i).Child("name"), "").WithOrigin("profile/extends-name"))
		} else if findings := apivalidation.NameIsDNSSubdomain(base.Name, false); len(findings) > 0 {
			r.addError(field.Invalid(at.Index(i).Child("name"), message.Short(base.Name), nearest.NoObject+": "+findings[0]).WithOrigin("profile/extends-name"))
		}
	}
}
