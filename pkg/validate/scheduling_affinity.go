package validate

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/kilnvm/kiln/pkg/config"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: affinity, topologySpreadConstraints.
// Pods have the same rules and get these fields unchanged: otherwise Kubernetes would refuse the pod of a VMI that was admitted.
// KubeVirt copied them from Kubernetes (validate-k8s-utils.go), where they are not importable; its paths lack 'affinity'.

var affinityRules = []guestRule{
	{affinity, []Rule{
		{Name: "placement/node-terms"},
		{Name: "placement/node-weight"},
		{Name: "placement/node-operator"},
		{Name: "placement/node-key"},
		{Name: "placement/node-values"},
		{Name: "placement/node-no-values"},
		{Name: "placement/node-one-value"},
		{Name: "placement/node-value", KubeVirt: KubeVirtAdmits},
		{Name: "placement/field-operator"},
		{Name: "placement/field-values"},
		{Name: "placement/field-key"},
		{Name: "placement/field-value"},
		{Name: "placement/pod-weight"},
		{Name: "placement/pod-selector"},
		{Name: "placement/pod-namespace-selector"},
		{Name: "placement/pod-namespace"},
		{Name: "placement/pod-topology-key"},
		{Name: "placement/pod-label-keys", KubeVirt: KubeVirtAdmits},
	}},
	{spreadConstraints, []Rule{
		{Name: "placement/spread-skew"},
		{Name: "placement/spread-topology-key"},
		{Name: "placement/spread-unsatisfiable"},
		{Name: "placement/spread-selector"},
		{Name: "placement/spread-twice"},
		{Name: "placement/spread-policy"},
		{Name: "placement/spread-domains", KubeVirt: KubeVirtAdmits},
		{Name: "placement/spread-label-keys", KubeVirt: KubeVirtAdmits},
	}},
}

// affinity is validateSpecAffinity.
func affinity(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) (errs field.ErrorList) {
	if spec.Affinity == nil {
		return nil
	}
	path = path.Child("affinity")
	if node := spec.Affinity.NodeAffinity; node != nil {
		errs = append(errs, nodeAffinity(node, path.Child("nodeAffinity"))...)
	}
	if pod := spec.Affinity.PodAffinity; pod != nil {
		errs = append(errs, podTerms(pod.RequiredDuringSchedulingIgnoredDuringExecution, pod.PreferredDuringSchedulingIgnoredDuringExecution,
			path.Child("podAffinity"))...)
	}
	if pod := spec.Affinity.PodAntiAffinity; pod != nil {
		errs = append(errs, podTerms(pod.RequiredDuringSchedulingIgnoredDuringExecution, pod.PreferredDuringSchedulingIgnoredDuringExecution,
			path.Child("podAntiAffinity"))...)
	}
	return errs
}

// The field names that the affinity of nodes and pods shares.
const (
	required  = "requiredDuringSchedulingIgnoredDuringExecution"
	preferred = "preferredDuringSchedulingIgnoredDuringExecution"
)

// nodeAffinity is ValidateNodeSelector and ValidatePreferredSchedulingTerms. Required without a term would match no node.
func nodeAffinity(node *corev1.NodeAffinity, path *field.Path) (errs field.ErrorList) {
	if selector := node.RequiredDuringSchedulingIgnoredDuringExecution; selector != nil {
		at := path.Child(required, "nodeSelectorTerms")
		if len(selector.NodeSelectorTerms) == 0 {
			errs = append(errs, field.Required(at, "must have at least one term").WithOrigin("placement/node-terms"))
		}
		for i := range selector.NodeSelectorTerms {
			errs = append(errs, nodeTerm(&selector.NodeSelectorTerms[i], at.Index(i))...)
		}
	}
	for i := range node.PreferredDuringSchedulingIgnoredDuringExecution {
		term, at := &node.PreferredDuringSchedulingIgnoredDuringExecution[i], path.Child(preferred).Index(i)
		errs = append(errs, weight(term.Weight, at.Child("weight")).WithOrigin("placement/node-weight")...)
		errs = append(errs, nodeTerm(&term.Preference, at.Child("preference"))...)
	}
	return errs
}

// weight is the range of the scheduler's API.
func weight(given int32, at *field.Path) field.ErrorList {
	if given < 1 || given > 100 {
		return field.ErrorList{field.Invalid(at, given, "must be between 1 and 100")}
	}
	return nil
}

// nodeTerm is ValidateNodeSelectorTerm. A term without any expression is legal, and matches no node.
func nodeTerm(term *corev1.NodeSelectorTerm, path *field.Path) (errs field.ErrorList) {
	// Values, operator and key are judged independently, so that one mistake hides no other.
	for i, r := range term.MatchExpressions {
		at := path.Child("matchExpressions").Index(i)
		errs = append(errs, nodeValues(r, at.Child("values"))...)
		errs = append(errs, supported(at.Child("operator"), r.Operator, corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn, corev1.NodeSelectorOpExists,
			corev1.NodeSelectorOpDoesNotExist, corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt).WithOrigin("placement/node-operator")...)
		errs = append(errs, oneEach(metavalidation.ValidateLabelName(r.Key, at.Child("key"))).WithOrigin("placement/node-key")...)
		for i, value := range r.Values {
			errs = append(errs, named(at.Child("values").Index(i), value, validation.IsValidLabelValue).WithOrigin("placement/node-value")...)
		}
	}
	for i, r := range term.MatchFields {
		errs = append(errs, nodeField(r, path.Child("matchFields").Index(i))...)
	}
	return errs
}

// nodeValues requires the number of values that the operator compares with (ValidateNodeSelectorRequirement).
func nodeValues(r corev1.NodeSelectorRequirement, at *field.Path) field.ErrorList {
	switch r.Operator {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
		if len(r.Values) == 0 {
			return field.ErrorList{field.Required(at, "must have at least one value for operators 'In' and 'NotIn'").WithOrigin("placement/node-values")}
		}
	case corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist:
		if len(r.Values) > 0 {
			return field.ErrorList{field.Forbidden(at, "must be empty for operators 'Exists' and 'DoesNotExist'").WithOrigin("placement/node-no-values")}
		}
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		if len(r.Values) != 1 {
			return field.ErrorList{field.Required(at, "must have exactly one value for operators 'Gt' and 'Lt'").WithOrigin("placement/node-one-value")}
		}
	}
	return nil
}

// nodeField requires metadata.name, the only field of nodes that can be selected, with one value.
// In KubeVirt it is ValidateNodeFieldSelectorRequirement.
func nodeField(r corev1.NodeSelectorRequirement, path *field.Path) (errs field.ErrorList) {
	errs = supported(path.Child("operator"), r.Operator, corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn).WithOrigin("placement/field-operator")
	if len(errs) == 0 && len(r.Values) != 1 {
		errs = append(errs, field.Required(path.Child("values"), "must be exactly one node name").WithOrigin("placement/field-values"))
	}
	if errs = append(errs, supported(path.Child("key"), r.Key, metav1.ObjectNameField).WithOrigin("placement/field-key")...); r.Key != metav1.ObjectNameField {
		return errs
	}
	for i, value := range r.Values {
		errs = append(errs, named(path.Child("values").Index(i), value, validation.IsDNS1123Subdomain).WithOrigin("placement/field-value")...)
	}
	return errs
}

// podTerms is validatePodAffinityTerms and validateWeightedPodAffinityTerms, for affinity and anti-affinity alike.
func podTerms(must []corev1.PodAffinityTerm, should []corev1.WeightedPodAffinityTerm, path *field.Path) (errs field.ErrorList) {
	for i := range must {
		errs = append(errs, podTerm(&must[i], path.Child(required).Index(i))...)
	}
	for i := range should {
		at := path.Child(preferred).Index(i)
		errs = append(errs, weight(should[i].Weight, at.Child("weight")).WithOrigin("placement/pod-weight")...)
		errs = append(errs, podTerm(&should[i].PodAffinityTerm, at.Child("podAffinityTerm"))...)
	}
	return errs
}

// podTerm is validatePodAffinityTerm. A nil selector is legal and selects no pod; an empty one selects all.
func podTerm(term *corev1.PodAffinityTerm, path *field.Path) (errs field.ErrorList) {
	errs = append(errs, labelSelector(term.LabelSelector, path.Child("labelSelector")).WithOrigin("placement/pod-selector")...)
	errs = append(errs, labelSelector(term.NamespaceSelector, path.Child("namespaceSelector")).WithOrigin("placement/pod-namespace-selector")...)
	for i, name := range term.Namespaces {
		errs = append(errs, named(path.Child("namespaces").Index(i), name, validation.IsDNS1123Label).WithOrigin("placement/pod-namespace")...)
	}
	errs = append(errs, labelKeys(term.MatchLabelKeys, term.LabelSelector, path.Child("matchLabelKeys")).WithOrigin("placement/pod-label-keys")...)
	errs = append(errs, labelKeys(term.MismatchLabelKeys, term.LabelSelector, path.Child("mismatchLabelKeys")).WithOrigin("placement/pod-label-keys")...)
	for i, key := range term.MatchLabelKeys {
		if slices.Contains(term.MismatchLabelKeys, key) {
			errs = append(errs, field.Invalid(path.Child("matchLabelKeys").Index(i), key,
				"is also one of mismatchLabelKeys: remove one of them").WithOrigin("placement/pod-label-keys"))
		}
	}
	return append(errs, topologyKey(term.TopologyKey, path.Child("topologyKey")).WithOrigin("placement/pod-topology-key")...)
}

// labelKeys is validateLabelKeys of Kubernetes. KubeVirt judges neither keys nor minDomains.
func labelKeys(keys []string, selector *metav1.LabelSelector, at *field.Path) (errs field.ErrorList) {
	if len(keys) > 0 && selector == nil {
		return field.ErrorList{field.Forbidden(at, "needs labelSelector, which it completes: set it")}
	}
	for i, key := range keys {
		errs = append(errs, oneEach(metavalidation.ValidateLabelName(key, at.Index(i)))...)
	}
	return errs
}

// topologyKey must not be empty: Kubernetes gives an empty key no meaning any more.
func topologyKey(key string, at *field.Path) field.ErrorList {
	if key == "" {
		return field.ErrorList{field.Required(at, "name the node label that defines the topology domains")}
	}
	return oneEach(metavalidation.ValidateLabelName(key, at))
}

// labelSelector is ValidateLabelSelector of apimachinery.
func labelSelector(selector *metav1.LabelSelector, at *field.Path) field.ErrorList {
	return oneEach(metavalidation.ValidateLabelSelector(selector, metavalidation.LabelSelectorValidationOptions{}, at))
}

// oneEach joins errors that follow each other and are about one value: a check of apimachinery has one for each finding.
func oneEach(errs field.ErrorList) (joined field.ErrorList) {
	for _, err := range errs {
		if n := len(joined); n > 0 && joined[n-1].Field == err.Field && reflect.DeepEqual(joined[n-1].BadValue, err.BadValue) {
			joined[n-1].Detail += "; " + err.Detail
			continue
		}
		joined = append(joined, err)
	}
	return joined
}

// spreadConstraints is validateTopologySpreadConstraints. Of two equal constraints the earlier is reported, as Kubernetes does.
// KubeVirt does not judge the two inclusion policies.
func spreadConstraints(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) (errs field.ErrorList) {
	type pair struct {
		key  string
		when corev1.UnsatisfiableConstraintAction
	}
	// The last of equal constraints is legal, and all before it are reported.
	last := map[pair]int{}
	for i, c := range spec.TopologySpreadConstraints {
		last[pair{c.TopologyKey, c.WhenUnsatisfiable}] = i
	}
	for i := range spec.TopologySpreadConstraints {
		c, at := &spec.TopologySpreadConstraints[i], path.Child("topologySpreadConstraints").Index(i)
		if c.MaxSkew <= 0 {
			errs = append(errs, field.Invalid(at.Child("maxSkew"), c.MaxSkew, "must be greater than 0").WithOrigin("placement/spread-skew"))
		}
		errs = append(errs, topologyKey(c.TopologyKey, at.Child("topologyKey")).WithOrigin("placement/spread-topology-key")...)
		errs = append(errs, supported(at.Child("whenUnsatisfiable"), c.WhenUnsatisfiable, corev1.DoNotSchedule,
			corev1.ScheduleAnyway).WithOrigin("placement/spread-unsatisfiable")...)
		errs = append(errs, labelSelector(c.LabelSelector, at.Child("labelSelector")).WithOrigin("placement/spread-selector")...)
		errs = append(errs, labelKeys(c.MatchLabelKeys, c.LabelSelector, at.Child("matchLabelKeys")).WithOrigin("placement/spread-label-keys")...)
		switch domains := c.MinDomains; {
		case domains != nil && *domains <= 0:
			errs = append(errs, field.Invalid(at.Child("minDomains"), *domains, "must be greater than 0").WithOrigin("placement/spread-domains"))
		case domains != nil && c.WhenUnsatisfiable == corev1.ScheduleAnyway:
			errs = append(errs, field.Invalid(at.Child("minDomains"), *domains, "needs whenUnsatisfiable 'DoNotSchedule': remove it").
				WithOrigin("placement/spread-domains"))
		}
		errs = append(errs, inclusion(at.Child("nodeAffinityPolicy"), c.NodeAffinityPolicy)...)
		errs = append(errs, inclusion(at.Child("nodeTaintsPolicy"), c.NodeTaintsPolicy)...)
		if p := (pair{c.TopologyKey, c.WhenUnsatisfiable}); last[p] > i {
			errs = append(errs, field.Duplicate(at, fmt.Sprintf("topologyKey '%s' with whenUnsatisfiable '%s'", p.key, p.when)).WithOrigin("placement/spread-twice"))
		}
	}
	return errs
}

// inclusion judges nodeAffinityPolicy and nodeTaintsPolicy.
func inclusion(at *field.Path, policy *corev1.NodeInclusionPolicy) field.ErrorList {
	if policy == nil {
		return nil
	}
	return supported(at, *policy, corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore).WithOrigin("placement/spread-policy")
}
