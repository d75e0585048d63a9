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
	// cluster are files, relative to this file, with the objects of the cluster: instancetypes, preferences, presets, profiles, namespaces and KubeVirt's
	// configuration. A namespace that is not in the files has one label, its name.
	Cluster []string `json:"cluster,omitempty"`
	// cases are requests with the answers that the policy must give.
	Cases []GuestPolicyCase `json:"cases"`
}

// GuestPolicyCase is a request and the expected answer of the policy. No other policy judges the request.
// +kubebuilder:object:generate=false
type GuestPolicyCase struct {
	// name says what the case shows.
	Name string `json:"name"`
	// object is a VirtualMachine, a VirtualMachineInstance or an object with a template of one, such as a VirtualMachinePool: the object itself, or the name of
	// a file with one object, relative to this file.
	// +kubebuilder:validation:Schemaless
	Object json.RawMessage `json:"object"`
	// oldObject is the VirtualMachine or the object with a template before an update, in the form of object.
	// +kubebuilder:validation:Schemaless
	OldObject json.RawMessage `json:"oldObject,omitempty"`
	// operation is CREATE or UPDATE. Default: UPDATE with an oldObject, else CREATE.
	Operation GuestPolicyOperation `json:"operation,omitempty"`
	// namespace is the namespace of an object without metadata.namespace. Default: default.
	Namespace string `json:"namespace,omitempty"`
	// user is the account that sends the request, request.userInfo. It is in group system:authenticated, as all accounts.
	User GuestPolicyUser `json:"user,omitempty"`
	// now is the time of the request, by which GuestPolicyExceptions end. Default: the time of the test.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=date-time
	Now *metav1.Time `json:"now,omitempty"`
	// expect is the answer.
	Expect GuestPolicyAnswer `json:"expect"`
	// message is a part of the message of a violation, matches a regular expression (RE2) for it, and field the path of its cause. One violation
	// must have all that are set.
	Message string `json:"message,omitempty"`
	Matches string `json:"matches,omitempty"`
	Field   string `json:"field,omitempty"`
}

// GuestPolicyUser is an account, with the fields of authentication.k8s.io/v1.
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
	// PolicyAllows means that no validation is violated, or that the policy does not judge the object.
	PolicyAllows GuestPolicyAnswer = "allowed"
	// PolicyDenies means that a validation is violated, and the object is refused.
	PolicyDenies GuestPolicyAnswer = "denied"
	// PolicyWarns means that a validation is violated, and a warning is returned.
	PolicyWarns GuestPolicyAnswer = "warned"
	// PolicyAudits means that a validation is violated, and only the audit event reports it.
	PolicyAudits GuestPolicyAnswer = "audited"
	// PolicyExcepts means that a validation is violated, and that a GuestPolicyException permits each violation that would be denied.
	PolicyExcepts GuestPolicyAnswer = "excepted"
	// PolicyBreaks means that an expression fails when it is evaluated.
	PolicyBreaks GuestPolicyAnswer = "failed"
)
