package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// KindGuestPolicy is the kind of a GuestPolicy.
const KindGuestPolicy = "GuestPolicy"

// GuestPolicy refuses VMs and VMIs, or warns about them, by CEL expressions. Its fields are like the fields of a ValidatingAdmissionPolicy, but its expressions
// see the VMI that will boot. They have these variables:
//   - object: the VirtualMachine as it is written, or the VirtualMachineInstance as it is stored, with every default
//   - oldObject: the object before an update, else null
//   - guest: the VirtualMachineInstance that boots, with every default; null for a VM whose instancetype or preference does not exist yet
//   - instancetype, preference: the instancetype and the preference to which the VM refers, with apiVersion, kind, metadata and spec; null if the VM refers to
//     no such object. Labels and annotations are known as long as the object has the spec to which the VM is pinned.
//   - hardware: the recorded hardware of the guest, as spec.hardware of its GuestHardware; null if nothing is recorded
//   - namespaceObject: the namespace, with its metadata
//   - request: kind, name, namespace, operation, userInfo and dryRun of the request. If object would be made of a template, such as of a
//     VirtualMachinePool, requestKind, requestResource and name are of the object with the template.
//   - variables: the variables of the policy, by name
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,path=guestpolicies,singular=guestpolicy,shortName=gpol,categories=kiln
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Actions",type=string,JSONPath=`.spec.validationActions`
// +kubebuilder:printcolumn:name="First Validation",type=string,JSONPath=`.spec.validations[*].expression`,priority=1
// +kubebuilder:printcolumn:name="Accepted",type=string,JSONPath=`.status.conditions[?(@.type=="Accepted")].status`
// +kubebuilder:printcolumn:name="Enforced",type=string,JSONPath=`.status.conditions[?(@.type=="Enforced")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type GuestPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              GuestPolicySpec   `json:"spec"`
	Status            GuestPolicyStatus `json:"status,omitempty,omitzero"`
}

// GuestPolicyList is a list of policies.
// +kubebuilder:object:root=true
type GuestPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []GuestPolicy `json:"items"`
}

// GuestPolicyStatus is what Kiln's controller reports about a policy.
type GuestPolicyStatus struct {
	// conditions are of the types Accepted, which is False if the policy does not compile, so that its failurePolicy decides, Enforced and ParamsReadable.
	// Enforced is on policies with action Deny: it is True if the API server refuses the objects of the policy while Kiln does not answer. ParamsReadable is
	// on policies with a paramKind: it is False if Kiln cannot read the params, so that the failurePolicy decides.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ReasonNotCompiled is a reason of ConditionAccepted. It means that an expression of the GuestPolicy does not compile.
const ReasonNotCompiled = "NotCompiled"

// ConditionEnforced is on GuestPolicies with action Deny. It reports whether the API server refuses the objects of the policy while Kiln does not answer.
const ConditionEnforced = "Enforced"

// Reasons of ConditionEnforced.
const (
	// ReasonRegistered means that the API server must ask Kiln about the objects of the policy.
	ReasonRegistered = "Registered"
	// ReasonNotRegistered means that a webhook configuration does not exist or lacks the webhooks that judge the policy.
	ReasonNotRegistered = "NotRegistered"
	// ReasonMayBeSkipped means that the policy has failurePolicy Ignore, and that its objects are admitted while Kiln does not answer.
	ReasonMayBeSkipped = "MayBeSkipped"
)

// ConditionParamsReadable is on GuestPolicies with a paramKind. It reports whether Kiln's webhook may read the params.
const ConditionParamsReadable = "ParamsReadable"

// Reasons of ConditionParamsReadable.
const (
	// ReasonParamsReadable means that the webhook may list and watch what paramRef selects.
	ReasonParamsReadable = "Readable"
	// ReasonParamKindNotServed means that the cluster does not serve the paramKind, or that paramRef has a namespace and the kind has none.
	ReasonParamKindNotServed = "NotServed"
	// ReasonParamsForbidden means that the webhook may not list and watch the paramKind. An administrator must grant it.
	ReasonParamsForbidden = "Forbidden"
)

// GuestPolicySpec has the objects that a policy judges, and its rules.
// +kubebuilder:validation:XValidation:rule="has(self.paramKind) == has(self.paramRef)",message="paramKind and paramRef need each other"
type GuestPolicySpec struct {
	// paramKind is the kind of the params: objects that expressions read as params, such as the limits of a team. Kiln's webhook needs the right to list and
	// watch it. Secrets are not allowed, because everyone may read a policy and its messages.
	ParamKind *GuestPolicyParamKind `json:"paramKind,omitempty"`
	// paramRef selects the params. The policy is evaluated once for each of them, and all must be satisfied.
	ParamRef *GuestPolicyParamRef `json:"paramRef,omitempty"`
	// matchConstraints select the objects that the policy judges. Default: every VirtualMachine and every VirtualMachineInstance without a VM, when it is
	// created or updated.
	MatchConstraints GuestPolicyMatch `json:"matchConstraints,omitempty,omitzero"`
	// matchConditions are further conditions. The policy judges an object for which all are true.
	// +kubebuilder:validation:MaxItems=64
	// +listType=map
	// +listMapKey=name
	MatchConditions []GuestPolicyCondition `json:"matchConditions,omitempty"`
	// variables are expressions that others use as variables.NAME. A variable is computed when it is first used, and may use those before it.
	// +kubebuilder:validation:MaxItems=64
	// +listType=map
	// +listMapKey=name
	Variables []GuestPolicyVariable `json:"variables,omitempty"`
	// validations are expressions that must be true. All violations are reported at once.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	Validations []GuestPolicyValidation `json:"validations"`
	// validationActions are the effects of a validation that is not true: Deny refuses the object, Warn returns a warning, Audit adds to the audit event
	// of the request. Deny and Warn exclude each other. Default: Deny.
	// +kubebuilder:default={Deny}
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:XValidation:rule="!('Deny' in self && 'Warn' in self)",message="Deny and Warn exclude each other"
	// +listType=set
	ValidationActions []GuestPolicyAction `json:"validationActions,omitempty"`
	// auditAnnotations are added to the audit event of a request that the policy judges.
	// +kubebuilder:validation:MaxItems=20
	// +listType=map
	// +listMapKey=key
	AuditAnnotations []GuestPolicyAnnotation `json:"auditAnnotations,omitempty"`
	// failurePolicy is the effect of an expression that does not compile, or fails when it is evaluated: Fail refuses the object, Ignore returns a warning.
	// If the webhooks of VMs have failurePolicy Ignore, as beside KubeVirt, Fail also means that objects of a policy with action Deny are refused while Kiln
	// does not answer. Default: Fail.
	// +kubebuilder:validation:Enum=Fail;Ignore
	FailurePolicy GuestPolicyFailure `json:"failurePolicy,omitempty"`
	// exceptions says which GuestPolicyExceptions of namespaces have an effect. Default: none.
	Exceptions *GuestPolicyExceptions `json:"exceptions,omitempty"`
}

// GuestPolicyParamKind is the kind of the params of a policy.
type GuestPolicyParamKind struct {
	// apiVersion is the group and version of the kind, such as example.org/v1, or v1 for a ConfigMap.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	APIVersion string `json:"apiVersion"`
	// kind is the name of the kind, such as ConfigMap.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`
}

// GuestPolicyParamRef selects the params of a policy, as the paramRef of a ValidatingAdmissionPolicyBinding.
// +kubebuilder:validation:XValidation:rule="has(self.name) != has(self.selector)",message="one of name and selector must be set"
type GuestPolicyParamRef struct {
	// name is the name of the only param.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// namespace is the namespace of the params. Default: for a namespaced kind, the namespace of the VM. It must not be set for a kind without namespaces.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
	// selector selects the params by their labels. An empty selector selects all. At most 64 params may judge one VM.
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// parameterNotFoundAction is the effect if there is no param: Allow means that the policy does not judge the object, and Deny that its failurePolicy decides.
	ParameterNotFoundAction GuestPolicyNotFoundAction `json:"parameterNotFoundAction"`
}

// GuestPolicyNotFoundAction is the effect of params that do not exist.
// +kubebuilder:validation:Enum=Allow;Deny
type GuestPolicyNotFoundAction string

// Effects of params that do not exist.
const (
	// PolicyAllowNotFound means that the policy does not judge the object.
	PolicyAllowNotFound GuestPolicyNotFoundAction = "Allow"
	// PolicyDenyNotFound means that the failurePolicy decides about the object.
	PolicyDenyNotFound GuestPolicyNotFoundAction = "Deny"
)

// GuestPolicyMatch selects the objects that a policy judges.
type GuestPolicyMatch struct {
	// resources are virtualmachines and virtualmachineinstances. A policy for only virtualmachines does not judge a
	// VirtualMachineInstance that a user creates without a VM. VMIs of VMs are not judged again. Default: both.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	// +listType=set
	Resources []GuestPolicyResource `json:"resources,omitempty"`
	// operations are CREATE and UPDATE. Default: both. UPDATE includes updates that change only labels, annotations and owner references, even of a
	// VirtualMachineInstance. If an update does not change the VMI that boots, violations that the stored object also has are only warnings.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	// +listType=set
	Operations []GuestPolicyOperation `json:"operations,omitempty"`
	// namespaceSelector selects namespaces by their labels. Default: all namespaces.
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	// objectSelector selects objects by their labels. Their owner chooses these labels. Default: all objects.
	ObjectSelector *metav1.LabelSelector `json:"objectSelector,omitempty"`
}

// GuestPolicyResource is a resource that policies judge.
// +kubebuilder:validation:Enum=virtualmachines;virtualmachineinstances
type GuestPolicyResource string

// Resources that policies judge.
const (
	// PolicyVirtualMachines is the resource of VirtualMachines.
	PolicyVirtualMachines GuestPolicyResource = "virtualmachines"
	// PolicyVirtualMachineInstances is the resource of VirtualMachineInstances.
	PolicyVirtualMachineInstances GuestPolicyResource = "virtualmachineinstances"
)

// GuestPolicyOperation is an operation that policies judge.
// +kubebuilder:validation:Enum=CREATE;UPDATE
type GuestPolicyOperation string

// Operations that policies judge.
const (
	// PolicyCreate is the creation of an object.
	PolicyCreate GuestPolicyOperation = "CREATE"
	// PolicyUpdate is the update of an object.
	PolicyUpdate GuestPolicyOperation = "UPDATE"
)

// GuestPolicyCondition is an expression that decides whether a policy judges an object.
type GuestPolicyCondition struct {
	// name identifies the condition.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// expression is CEL of type bool.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=16384
	Expression string `json:"expression"`
}

// GuestPolicyVariable is an expression that others use.
type GuestPolicyVariable struct {
	// name is an identifier of CEL.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Za-z_][A-Za-z0-9_]*$`
	Name string `json:"name"`
	// expression is CEL of any type.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=16384
	Expression string `json:"expression"`
}

// GuestPolicyValidation is an expression that must be true.
type GuestPolicyValidation struct {
	// name identifies the validation for GuestPolicyExceptions. It is unique in the policy.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name,omitempty"`
	// expression is CEL of type bool.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=16384
	Expression string `json:"expression"`
	// message is what the owner of the object reads. Default: the expression.
	// +kubebuilder:validation:MaxLength=2048
	Message string `json:"message,omitempty"`
	// messageExpression is CEL of type string that makes the message. It counts before message, unless it fails or is empty.
	// +kubebuilder:validation:MaxLength=16384
	MessageExpression string `json:"messageExpression,omitempty"`
	// reason of the cause. Default: Invalid. If the field is an object, such as spec.instancetype, the reason is Forbidden instead of Invalid.
	// +kubebuilder:validation:Enum=Unauthorized;Forbidden;Invalid;RequestEntityTooLarge
	Reason metav1.StatusReason `json:"reason,omitempty"`
	// field is the path of the cause in a VirtualMachine, such as spec.instancetype, or in a VirtualMachineInstance, such as
	// spec.domain.cpu.cores, which means spec.template.spec.domain.cpu.cores in a VM. Default: spec.
	// +kubebuilder:validation:MaxLength=512
	Field string `json:"field,omitempty"`
}

// GuestPolicyAction is the effect of a validation that is not true.
// +kubebuilder:validation:Enum=Deny;Warn;Audit
type GuestPolicyAction string

// Actions of policies.
const (
	// PolicyDeny refuses the object.
	PolicyDeny GuestPolicyAction = "Deny"
	// PolicyWarn returns a warning.
	PolicyWarn GuestPolicyAction = "Warn"
	// PolicyAudit adds to the audit event of the request.
	PolicyAudit GuestPolicyAction = "Audit"
)

// GuestPolicyFailure is the effect of an expression that fails.
type GuestPolicyFailure string

// Failure policies.
const (
	// PolicyFail refuses the object.
	PolicyFail GuestPolicyFailure = "Fail"
	// PolicyIgnore returns a warning.
	PolicyIgnore GuestPolicyFailure = "Ignore"
)

// GuestPolicyAnnotation is a note in the audit event of a request.
type GuestPolicyAnnotation struct {
	// key is the second part of the annotation's key. The first part is the name of the policy.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Key string `json:"key"`
	// valueExpression is CEL of type string, or null for no annotation.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=16384
	ValueExpression string `json:"valueExpression"`
}
