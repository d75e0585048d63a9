package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// KindGuestPolicyException is the kind of a GuestPolicyException.
const KindGuestPolicyException = "GuestPolicyException"

// GuestPolicyException lets VMs of its namespace violate validations of GuestPolicies until a date. A policy permits exceptions by spec.exceptions. Somebody of
// the team writes the exception, and an approver of each policy approves it, see 'kubectl kiln policy approve'.
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=gpolex,categories=kiln
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Policies",type=string,JSONPath=`.spec.policies[*].name`
// +kubebuilder:printcolumn:name="Requested By",type=string,JSONPath=`.spec.requestedBy`
// +kubebuilder:printcolumn:name="Approved By",type=string,JSONPath=`.status.approvals[*].by`
// +kubebuilder:printcolumn:name="In Force",type=string,JSONPath=`.status.conditions[?(@.type=="InForce")].status`
// +kubebuilder:printcolumn:name="Expires",type=string,JSONPath=`.spec.expires`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.spec.reason`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type GuestPolicyException struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              GuestPolicyExceptionSpec   `json:"spec"`
	Status            GuestPolicyExceptionStatus `json:"status,omitempty,omitzero"`
}

// GuestPolicyExceptionList is a list of exceptions.
// +kubebuilder:object:root=true
type GuestPolicyExceptionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []GuestPolicyException `json:"items"`
}

// GuestPolicyExceptionSpec is what may be violated, by which VMs, until when, and why.
type GuestPolicyExceptionSpec struct {
	// policies are the policies that may be violated.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=name
	Policies []GuestPolicyExceptionPolicy `json:"policies"`
	// virtualMachines are the VMs of this namespace that may violate the policies, and VirtualMachineInstances without a VM.
	VirtualMachines GuestPolicyExceptionMatch `json:"virtualMachines"`
	// reason is why the exception is needed. Approvers and auditors read it.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason"`
	// expires is the time from which the exception has no effect. It must be at most spec.exceptions.maxDuration of each policy after the creation of the
	// exception: a longer exception is a new one.
	Expires metav1.Time `json:"expires"`
	// requestedBy is the account that created the exception, or that changed its spec last. Admission sets it, and refuses any other value.
	// +kubebuilder:validation:MaxLength=1024
	RequestedBy string `json:"requestedBy,omitempty"`
}

// GuestPolicyExceptionPolicy is a policy that may be violated.
type GuestPolicyExceptionPolicy struct {
	// name is the name of the GuestPolicy.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// validations are the names of the validations that may be violated. Default: all validations of the policy.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +listType=set
	Validations []string `json:"validations,omitempty"`
}

// GuestPolicyExceptionMatch selects VMs.
// +kubebuilder:validation:XValidation:rule="has(self.names) != has(self.selector)",message="one of names and selector must be set"
type GuestPolicyExceptionMatch struct {
	// names are the names of VMs.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	Names []string `json:"names,omitempty"`
	// selector selects VMs by their labels. Everyone who may write VMs in the namespace may write these labels, so a policy must permit it by
	// spec.exceptions.selectors.
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
}

// GuestPolicyExceptionStatus contains the approvals of an exception.
type GuestPolicyExceptionStatus struct {
	// approvals are the approvals, one for each policy. An approver adds an element with only the name of a policy; admission sets the other fields. An approval
	// is void after a change of the spec.
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=policy
	Approvals []GuestPolicyExceptionApproval `json:"approvals,omitempty"`
	// conditions are of the types InForce and Expiring.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// GuestPolicyExceptionApproval is the approval of an exception for one policy.
type GuestPolicyExceptionApproval struct {
	// policy is the name of the GuestPolicy.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Policy string `json:"policy"`
	// by is the account that approved.
	// +kubebuilder:validation:MaxLength=1024
	By string `json:"by,omitempty"`
	// as is the element of spec.exceptions.approvers of the policy to which the account belongs. An approval has no effect while the policy lacks the element.
	As GuestPolicyApprover `json:"as,omitempty,omitzero"`
	// generation is the metadata.generation that was approved. If an approver sets it, admission refuses another generation: the spec has changed since the
	// approver read it.
	Generation int64 `json:"generation,omitempty"`
}

// GuestPolicyExceptions says which exceptions a policy permits.
// +kubebuilder:validation:XValidation:rule="!self.allowed || has(self.approvers) && has(self.maxDuration)",message="allowed needs approvers and maxDuration"
type GuestPolicyExceptions struct {
	// allowed permits exceptions. Without it, no exception from the policy has an effect.
	Allowed bool `json:"allowed"`
	// maxDuration is the longest time from the creation of an exception to its end, such as 168h for a week.
	MaxDuration *metav1.Duration `json:"maxDuration,omitempty"`
	// approvers are the accounts and groups that may approve an exception. They also need the right to patch guestpolicyexceptions/status, see ClusterRole
	// kiln-exception-approver. Nobody approves an exception that they requested.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +listType=atomic
	Approvers []GuestPolicyApprover `json:"approvers,omitempty"`
	// selectors permits exceptions that select VMs by labels. Everyone who may write VMs in a namespace may write their labels.
	Selectors bool `json:"selectors,omitempty"`
}

// GuestPolicyApprover is an account or a group.
type GuestPolicyApprover struct {
	// kind is User, Group or ServiceAccount.
	// +kubebuilder:validation:Enum=User;Group;ServiceAccount
	Kind string `json:"kind,omitempty"`
	// name is the name of the account or of the group.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Name string `json:"name,omitempty"`
	// namespace is the namespace of a ServiceAccount.
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
}

// ConditionExpiring is True in the last day of an exception that is in force. It and ConditionInForce of an exception are for people: reviews do not read them.
const ConditionExpiring = "Expiring"

// Reasons of ConditionInForce of GuestPolicyExceptions. The condition reports whether the exception has an effect for all its policies.
const (
	// ReasonApproved means that all policies permit the exception, and that it is approved for each of them.
	ReasonApproved = "Approved"
	// ReasonNotApproved means that an approval is missing, or void.
	ReasonNotApproved = "NotApproved"
	// ReasonNotAllowed means that a policy does not permit the exception.
	ReasonNotAllowed = "NotAllowed"
	// ReasonExpired means that spec.expires is over.
	ReasonExpired = "Expired"
	// ReasonNoSuchPolicy means that a GuestPolicy or one of its validations does not exist.
	ReasonNoSuchPolicy = "NoSuchPolicy"
)

// Reasons of ConditionExpiring.
const (
	// ReasonExpiresSoon means that the exception ends within a day. It is also the reason of an event.
	ReasonExpiresSoon = "ExpiresSoon"
	// ReasonNotSoon means that the exception is not in force, or does not end within a day.
	ReasonNotSoon = "NotSoon"
)
