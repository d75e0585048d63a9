package v1alpha1

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// KindGuestPolicyTest is the kind of a GuestPolicyTest.
const KindGuestPolicyTest = "GuestPolicyTest"

// GuestPolicyTest is a file with cases of one GuestPolicy, beside the policy in a folder. 'kubectl kiln policy test' runs it; no API server serves it. It
// has no spec, like the tests of other policy engines.
// +kubebuilder:skip
// +kubebuilder:object:generate=false
type GuestPolicyTest struct {
	metav1.TypeMeta `json:",inline"`
	// metadata may have a name, which is only for people.
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// policy is the name of the GuestPolicy, which is in the tested folder.
	Policy string `json:"policy"`
	// cluster are files, relative to this one, with what the cluster has: instancetypes, preferences, presets, profiles, namespaces and KubeVirt's
	// configuration. A namespace that is not there has one label, its name.
	Cluster []string `json:"cluster,omitempty"`
	// cases are what the policy must answer.
	Cases []GuestPolicyCase `json:"cases"`
}

// GuestPolicyCase is a request and the answer of the policy. All other policies are left out.
// +kubebuilder:object:generate=false
type GuestPolicyCase struct {
	// name says the point of the case.
	Name string `json:"name"`
	// object is a VirtualMachine or a VirtualMachineInstance: the object itself, or the name of a file with one object, relative to this one.
	// +kubebuilder:validation:Schemaless
	Object json.RawMessage `json:"object"`
	// oldObject is the VirtualMachine before an update, in the form of object.
	// +kubebuilder:validation:Schemaless
	OldObject json.RawMessage `json:"oldObject,omitempty"`
	// operation is CREATE or UPDATE. Default: UPDATE with an oldObject, else CREATE.
	Operation GuestPolicyOperation `json:"operation,omitempty"`
	// namespace is that of an object without one. Default: default.
	Namespace string `json:"namespace,omitempty"`
	// user is the account that sends the request, request.userInfo. It is in group system:authenticated, as all are.
	User GuestPolicyUser `json:"user,omitempty"`
	// expect is the answer.
	Expect GuestPolicyAnswer `json:"expect"`
	// message is a part of the message of a violation, matches a regular expression (RE2) for it, and field the path of its cause. One violation
	// must have all that are set.
	Message string `json:"message,omitempty"`
	Matches string `json:"matches,omitempty"`
	Field   string `json:"field,omitempty"`
}

// GuestPolicyUser is an account, in the words of authentication.k8s.io/v1.
// +kubebuilder:object:generate=false
type GuestPolicyUser struct {
	Username string              `json:"username,omitempty"`
	UID      string              `json:"uid,omitempty"`
	Groups   []string            `json:"groups,omitempty"`
	Extra    map[string][]string `json:"extra,omitempty"`
}

// GuestPolicyAnswer is what a policy does with a request.
type GuestPolicyAnswer string

// Answers of policies.
const (
	// PolicyAllows: the policy has nothing to say, or does not judge the object.
	PolicyAllows GuestPolicyAnswer = "allowed"
	// PolicyDenies: a validation is violated, and the object is refused.
	PolicyDenies GuestPolicyAnswer = "denied"
	// PolicyWarns: a validation is violated, and a warning is returned.
	PolicyWarns GuestPolicyAnswer = "warned"
	// PolicyAudits: a validation is violated, and only the audit event says so.
	PolicyAudits GuestPolicyAnswer = "audited"
	// PolicyBreaks: an expression fails when it is evaluated.
	PolicyBreaks GuestPolicyAnswer = "failed"
)
