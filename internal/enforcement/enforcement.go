// Package enforcement says which namespaces Kiln judges beside KubeVirt, and in which of them it refuses objects. The selectors of webhooks and policies in
// manifests/beside-kubevirt say the same to the API server.
package enforcement

import (
	"fmt"
	"slices"

	"github.com/kilnvm/kiln/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Values of the webhook's flag --enforcement: what admission does with an object that breaks a rule.
const (
	// Enforce refuses the object.
	Enforce = "Enforce"
	// Warn admits the object with warnings.
	Warn = "Warn"
)

// CheckValue returns an error if the value of --enforcement does not exist.
func CheckValue(value string) error {
	if value != Enforce && value != Warn {
		return fmt.Errorf("--enforcement is '%s', use %s or %s", value, Enforce, Warn)
	}
	return nil
}

// In returns what admission does in a namespace: Enforce or Warn. general is the value of --enforcement, which holds without label kilnvm.io/admission, and
// with a value of the label that does not exist. wrong is that value in quotes, or empty.
func In(namespace metav1.Object, general string) (value, wrong string) {
	switch label, labelled := namespace.GetLabels()[v1alpha1.LabelAdmission]; {
	case label == v1alpha1.AdmissionEnabled:
		return Enforce, ""
	case label == v1alpha1.AdmissionWarn, label == v1alpha1.AdmissionDisabled: // the API server has just read another label
		return Warn, ""
	case labelled:
		return general, fmt.Sprintf("'%s'", label)
	}
	return general, ""
}

// RefusingNamespaces returns a selector of the namespaces in which In returns Enforce. It does not select namespaces with label kilnvm.io/admission: disabled.
func RefusingNamespaces(general string) *metav1.LabelSelector {
	one := metav1.LabelSelectorRequirement{Key: v1alpha1.LabelAdmission, Operator: metav1.LabelSelectorOpNotIn,
		Values: []string{v1alpha1.AdmissionDisabled, v1alpha1.AdmissionWarn}}
	if general == Warn {
		one.Operator, one.Values = metav1.LabelSelectorOpIn, []string{v1alpha1.AdmissionEnabled}
	}
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{one}}
}

// Values of the controller's flag --admission-namespaces: which namespaces are judged.
const (
	// OptOut judges all namespaces but those with label kilnvm.io/admission: disabled.
	OptOut = "OptOut"
	// OptIn judges the namespaces with label kilnvm.io/admission: enabled or warn.
	OptIn = "OptIn"
)

// Namespaces are the namespaces that Kiln judges.
type Namespaces struct {
	// Selection is OptOut or OptIn.
	Selection string
	// Kiln and KubeVirt are their own namespaces, which are not judged.
	Kiln, KubeVirt string
}

// Validate returns an error if the value of --admission-namespaces does not exist.
func (n Namespaces) Validate() error {
	if n.Selection != OptOut && n.Selection != OptIn {
		return fmt.Errorf("--admission-namespaces is '%s', use %s or %s", n.Selection, OptOut, OptIn)
	}
	return nil
}

// Judges reports whether Kiln judges the objects of a namespace.
func (n Namespaces) Judges(namespace metav1.Object) bool {
	switch namespace.GetName() {
	case metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease, n.Kiln, n.KubeVirt:
		return false
	}
	label := namespace.GetLabels()[v1alpha1.LabelAdmission]
	if n.Selection == OptIn {
		return slices.Contains([]string{v1alpha1.AdmissionEnabled, v1alpha1.AdmissionWarn}, label)
	}
	return label != v1alpha1.AdmissionDisabled
}
