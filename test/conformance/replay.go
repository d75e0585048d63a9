package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/kilnvm/kiln/internal/kubevirt/virtcontroller"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/internal/review"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/instancetype"
	"github.com/kilnvm/kiln/pkg/validate"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
	strictjson "sigs.k8s.io/json"
)

// record is one case and what the reference answered.
type record struct {
	ID, Config, Kind, Namespace, Operation string
	User                                   string
	VM, VMI, Old                           json.RawMessage
	Spec                                   v1.VirtualMachineInstanceSpec
	Metadata                               metav1.ObjectMeta
	Instancetype                           *v1beta1.VirtualMachineInstancetypeSpec
	Preference                             *v1beta1.VirtualMachinePreferenceSpec
	Instancetypes, Preferences             []unstructured.Unstructured
	Presets                                []v1.VirtualMachineInstancePreset
	Objects                                []unstructured.Unstructured
	Context                                hostContext
	Expect                                 expectation
	// Suite names the corpus by which a case of cases.jsonl.gz is replayed.
	Suite string
	// Pruned are the fields that the version does not have.
	Pruned []string
	// version of KubeVirt that answered.
	version config.Version
	// schema of the object.
	schema schema
}

// cause is one finding of the reference.
type cause struct{ Type, Field, Message string }

// expectation is the recorded answer. Which fields are set depends on the corpus: causes for validations, an object for mutations and for what
// an instancetype makes of a VMI, XML for conversions. Panic is set where the reference crashed.
type expectation struct {
	Allowed bool
	Stage   string
	Panic   any
	Causes  []cause
	// More is the number of causes that were left out.
	More        int
	Message     string
	Object      json.RawMessage
	Conflicts   []struct{ Field string }
	SpreadCheck any
	// Requirements that are missed; nil where the case has none to miss.
	Requirements *struct {
		Error  string
		Fields []string
	}
	XML   string
	Error string
}

// differingOutcome returns an outcome that neither agrees nor is listed.
func differingOutcome(format string, args ...any) outcome {
	return outcome{difference: fmt.Sprintf(format, args...)}
}

// replayVMI compares the verdict on an explicit VMI. One that strict decoding refuses is not judged further, as in an API server.
func replayVMI(c record, cluster config.Cluster) outcome {
	vmi := &v1.VirtualMachineInstance{}
	errs := c.decodeStrictly(c.VMI, vmi)
	if len(errs) == 0 {
		var err error
		if errs, err = reviewVMI(vmi, cluster, c.User); err != nil {
			return differingOutcome("fault: %v", err)
		}
	}
	return compareVerdicts(c, c.VMI, answer{errs: errs, all: validate.Guest(vmi, cluster.Limits, nil)})
}

// replayVM compares the verdict on a VM, and lists a case that agrees once the status is read as the reference reads it.
func replayVM(c record, cluster config.Cluster) outcome {
	vm := &v1.VirtualMachine{}
	given := answer{errs: c.decodeStrictly(c.VM, vm)}
	if len(given.errs) == 0 && vm.DeletionTimestamp == nil { // the webhook lets VMs on their way out pass, as the reference's does
		var err error
		if given, err = judgeVM(c, vm, cluster); err != nil {
			return differingOutcome("fault: %v", err)
		}
	}
	o := compareVerdicts(c, c.VM, given)
	if o.agrees || o.listed != "" || !remembersRevisions(vm, c.Operation) {
		return o
	}
	given, err := judgeVM(c, vmWithRevisions(vm), cluster)
	if err == nil && compareVerdicts(c, c.VM, given).isAccountedFor() {
		o.listed = statusOnCreate
	}
	return o
}

// reviewVMI reviews an explicit VMI.
func reviewVMI(vmi *v1.VirtualMachineInstance, cluster config.Cluster, user string) (field.ErrorList, error) {
	reviewer := review.Reviewer{Configuration: func() config.Cluster { return cluster }}
	verdict, err := reviewer.ReviewExplicitVMI(context.Background(), vmi, review.Asker{Name: user})
	return verdict.Errors, err
}

// unknown says which of the two a VM names that the case does not hold.
type unknown struct{ size, preference bool }

// answer is what Kiln says of an object.
type answer struct {
	errs field.ErrorList
	// all are what the rules say of the guest, with what only follows from another mistake.
	all     field.ErrorList
	unknown unknown
	// refused says that resolution refused the VM, so that there is no VMI.
	refused  bool
	explicit *v1.VirtualMachineInstance
	set      instancetype.Set
}

// judgeVM reviews a VM as the webhook does, in the cluster that the case records. An error is a fault of the run, and no verdict.
func judgeVM(c record, vm *v1.VirtualMachine, cluster config.Cluster) (given answer, err error) {
	// Without a recorded old object it is a creation.
	var old *v1.VirtualMachine
	if c.Old != nil {
		old = &v1.VirtualMachine{}
		if err := json.Unmarshal(c.Old, old); err != nil {
			return given, err
		}
	}
	// The revisions of the case get this VM as their owner (see setKubeVirtOwner).
	reviewer, err := c.reviewerOfCase(vm, cluster)
	if err != nil {
		return given, err
	}
	reviewed, err := reviewer.ReviewVM(context.Background(), vm, old, review.Asker{Name: c.User})
	if err != nil {
		return given, err
	}
	set := reviewed.Input.Set
	missing := unknown{reviewed.Meant.Spec.Instancetype != nil && set.Instancetype == nil, reviewed.Meant.Spec.Preference != nil && set.Preference == nil}
	var all field.ErrorList
	if reviewed.Explicit != nil {
		all = validate.Guest(reviewed.Explicit, cluster.Limits, field.NewPath("spec", "template"))
	}
	// A mistake of resolution, such as a kind that does not exist, leaves no VMI that could be compared.
	return answer{errs: reviewed.Errors, all: all, unknown: missing, explicit: reviewed.Explicit, set: set, refused: len(reviewed.Input.Mistakes) > 0}, nil
}

// reviewerOfCase reviews in the cluster of a case. owner is the VM that KubeVirt's revisions in it belong to.
func (c record) reviewerOfCase(owner *v1.VirtualMachine, cluster config.Cluster) (review.Reviewer, error) {
	// The objects are untyped; the scheme is for the kinds that the resolver reads typed.
	scheme := runtime.NewScheme()
	err := errors.Join(v1.AddToScheme(scheme), appsv1.AddToScheme(scheme))
	var known []*unstructured.Unstructured
	for _, list := range [][]unstructured.Unstructured{c.Instancetypes, c.Preferences, c.Objects} {
		for i := range list {
			if list[i].GetKind() == "ControllerRevision" {
				setKubeVirtOwner(&list[i], owner)
			}
			known = append(known, &list[i])
		}
	}
	for i := range c.Presets {
		object, failed := runtime.DefaultUnstructuredConverter.ToUnstructured(&c.Presets[i])
		preset := &unstructured.Unstructured{Object: object}
		preset.SetGroupVersionKind(v1.VirtualMachineInstancePresetGroupVersionKind)
		known, err = append(known, preset), errors.Join(err, failed)
	}
	return review.Reviewer{
		Resolver:      resolve.Resolver{Cached: objects.New(scheme, known...)},
		Configuration: func() config.Cluster { return cluster }, KubeVirt: virtcontroller.Completer{},
	}, err
}

// setKubeVirtOwner gives a recorded revision the owner that KubeVirt's controller gives each, and by which Kiln knows that it is one of
// KubeVirt's: its name holds no digest of its content.
func setKubeVirtOwner(revision *unstructured.Unstructured, vm *v1.VirtualMachine) {
	revision.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(vm, v1.VirtualMachineGroupVersionKind)})
}

// objectOf is a JSON object, untyped. Other JSON is an error.
func objectOf(raw []byte) (object map[string]any, err error) {
	return object, json.Unmarshal(raw, &object)
}

// decodeStrictly reads strictly, as the API server does when it is asked to. What else the schema says is compared only where the
// reference's webhook, which checks the schema itself, found nothing else: Kiln leaves that to the API server.
func (c record) decodeStrictly(raw []byte, into any) field.ErrorList {
	strict, err := strictjson.UnmarshalStrict(raw, into)
	if err != nil {
		strict = append(strict, err)
	}
	var errs field.ErrorList
	for _, err := range strict {
		errs = append(errs, field.Invalid(nil, "", err.Error()))
	}
	if object, err := objectOf(raw); err == nil && c.Expect.Stage == "schema" {
		errs = append(errs, c.schema.refusedFields(object)...)
	}
	return errs
}
