package audit

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/pin"
	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/kilnvm/kiln/internal/workbench/crdschema"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
	"github.com/kilnvm/kiln/pkg/validate"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// auditor collects an audit, page by page.
type auditor struct {
	*Audit
	bench *workbench.Bench
	in    manifest.Inputs
	rules map[string]*Rule
	// seen are the objects that were judged, with their versions: a dump may have an object in several files.
	seen map[string]string
	// repeated is the number of objects that a dump has several times with different versions, and example names one.
	repeated int
	example  string
}

// maxFindings is how many findings of one object are kept. A hostile object may have a thousand.
const maxFindings = 20

func newAuditor(b *workbench.Bench, in manifest.Inputs) *auditor {
	return &auditor{bench: b, in: in, rules: map[string]*Rule{}, seen: map[string]string{}, Audit: &Audit{
		Judged: map[string]int{}, Rules: []Rule{}, Objects: []Object{}, Incomplete: []string{}, Namespaces: []Namespace{},
		Unjudged: []Unjudged{}, Warnings: []string{},
	}}
}

// judgePage judges some objects, and adds the results. VMs that would be refused as a create are judged twice more: as an update, and as the VMI of a start.
func (a *auditor) judgePage(ctx context.Context, page []manifest.Object) error {
	page = slices.DeleteFunc(page, func(o manifest.Object) bool {
		if o.Fault != nil {
			return false
		}
		version := string(o.GetUID()) + " " + o.GetResourceVersion()
		was, again := a.seen[o.Name()]
		if again && (was != version || version == " ") {
			a.repeated++
			a.example = cmp.Or(a.example, o.Name())
		}
		if !again {
			a.seen[o.Name()] = version
		}
		return again || o.MadeByVM()
	})
	for i := range page {
		// A stored VM is judged as its owner would create it again. A stored VMI has fields that only controllers write.
		page[i].Stored = page[i].GetKind() != v1.VirtualMachineGroupVersionKind.Kind
	}
	created, err := a.reviewObjects(ctx, page, false)
	if err != nil {
		return err
	}
	var vms, starts []manifest.Object
	var owners []*unstructured.Unstructured
	for _, r := range created {
		if r.Guest == nil || len(r.Verdict.Errors) == 0 || r.GetKind() != v1.VirtualMachineGroupVersionKind.Kind {
			continue
		}
		vms = append(vms, r.Object)
		if r.Unknown { // it does not start
			continue
		}
		start, owner, err := startOf(r)
		if err != nil {
			return err
		}
		starts, owners = append(starts, start), append(owners, owner)
	}
	changed, err := a.reviewObjects(ctx, vms, true)
	if err != nil {
		return err
	}
	started, err := a.reviewStarts(ctx, starts, owners)
	if err != nil {
		return err
	}
	onChange, onStart := byKey(changed), byKey(started)
	for _, r := range created {
		key := client.ObjectKeyFromObject(r)
		a.addResults(r, onChange[key], onStart[key])
	}
	return nil
}

// byKey returns reviews of objects of one kind by their namespace and name.
func byKey(all []workbench.Reviewed) map[client.ObjectKey]workbench.Reviewed {
	found := make(map[client.ObjectKey]workbench.Reviewed, len(all))
	for _, r := range all {
		found[client.ObjectKeyFromObject(r)] = r
	}
	return found
}

// reviewObjects reviews objects. Objects that it leaves out are of no kind that Kiln judges.
func (a *auditor) reviewObjects(ctx context.Context, page []manifest.Object, updates bool) ([]workbench.Reviewed, error) {
	in := a.in
	if in.Named = page; len(page) == 0 {
		return nil, ctx.Err()
	}
	all, err := a.bench.ReviewForAudit(ctx, in, updates)
	for _, warning := range all.Warnings { // each page has them
		if !slices.Contains(a.Warnings, warning) {
			a.Warnings = append(a.Warnings, warning)
		}
	}
	if err == nil {
		err = ctx.Err()
	}
	return all.Objects, err
}

// reviewStarts reviews the VMIs of VMs, which a VMI's review reads.
func (a *auditor) reviewStarts(ctx context.Context, starts []manifest.Object, owners []*unstructured.Unstructured) ([]workbench.Reviewed, error) {
	scheme, err := crdschema.Scheme()
	if err != nil {
		return nil, err
	}
	of := *a
	of.in.Reader = objects.Layers{objects.New(scheme, owners...), a.in.Reader}
	return of.reviewObjects(ctx, starts, false)
}

// startOf returns the VMI that a controller creates when a VM starts, and the VM. KubeVirt expands the instancetype and the preference of a VM that Kiln has
// not pinned yet, as are all VMs before Kiln is installed: the VMI is complete then, and the VM is returned without the two references.
func startOf(r workbench.Reviewed) (manifest.Object, *unstructured.Unstructured, error) {
	vmi, owner, pins := r.Guest.Sparse.DeepCopy(), r.Unstructured, pin.Read(r.Guest.VM)
	if spec := r.Guest.VM.Spec; !r.Unknown && (spec.Instancetype != nil && pins.Instancetype == "" || spec.Preference != nil && pins.Preference == "") {
		vmi, owner = r.Guest.Explicit.DeepCopy(), owner.DeepCopy()
		unstructured.RemoveNestedField(owner.Object, "spec", "instancetype")
		unstructured.RemoveNestedField(owner.Object, "spec", "preference")
	}
	vmi.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(r, v1.VirtualMachineGroupVersionKind)}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(vmi)
	one := &unstructured.Unstructured{Object: object}
	one.SetGroupVersionKind(v1.VirtualMachineInstanceGroupVersionKind)
	return manifest.Stored(one), owner, err // its asker is a controller
}

// addResults adds the results for one object: as a create, and for a VM that would be refused as a change and as a start.
func (a *auditor) addResults(created, changed, started workbench.Reviewed) {
	if created.Fault != nil {
		a.Unjudged = append(a.Unjudged, Unjudged{created.NameOrFile(), created.Fault.Error()})
		return
	}
	for request, r := range map[string]workbench.Reviewed{OnChange: changed, OnStart: started} {
		if r.Fault != nil {
			a.Unjudged = append(a.Unjudged, Unjudged{created.Object.Name() + ", on " + request, r.Fault.Error()})
		}
	}
	a.Judged[created.GetKind()]++
	if created.Unknown {
		a.Incomplete = append(a.Incomplete, created.Object.Name())
	}
	object := Object{Kind: created.GetKind(), Namespace: created.GetNamespace(), Name: created.GetName()}
	object.addAll(refusalsOfCreate(created), OnCreate, "")
	switch {
	case created.GetKind() == v1.VirtualMachineGroupVersionKind.Kind:
		object.addAll(changed.Verdict.Errors, OnChange, "")
		object.addAll(started.Verdict.Errors, OnStart, "spec.template.")
	case created.GetKind() != v1.VirtualMachineInstanceGroupVersionKind.Kind: // nothing that exists excuses a catalog object
		object.addAll(created.Verdict.Errors, OnChange, "")
	}
	if len(object.Findings) == 0 {
		return
	}
	for i := range object.Findings {
		finding := &object.Findings[i]
		if at, found := created.Find(finding.Field); found {
			finding.File, finding.Line = at.File, at.Number
		}
	}
	a.countFindings(object, created.Object.Name())
	if over := len(object.Findings) - maxFindings; over > 0 {
		object.Findings, object.More = object.Findings[:maxFindings], over
	}
	a.Objects = append(a.Objects, object)
}

// addAll adds errors to the findings: a cause that is there already refuses another request. prefix leads from a VM to the paths of the errors.
func (o *Object) addAll(errs field.ErrorList, request, prefix string) {
	for _, err := range errs {
		path := prefix + err.Field
		at := slices.IndexFunc(o.Findings, func(f Finding) bool { return f.Rule == err.Origin && f.Field == path })
		if at < 0 { // the VMI has the field that an instancetype or preference set, and the VM the reference to it
			at = slices.IndexFunc(o.Findings, func(f Finding) bool { return f.Rule == err.Origin && !slices.Contains(f.Refuses, request) })
		}
		if at < 0 {
			at = len(o.Findings)
			o.Findings = append(o.Findings, Finding{Rule: err.Origin, Field: path, Message: err.ErrorBody(), KubeVirt: validate.KubeVirtOn(err.Origin)})
		}
		if found := &o.Findings[at]; !slices.Contains(found.Refuses, request) {
			found.Refuses = append(found.Refuses, request)
		}
	}
}

// countFindings adds an object to the rules that refuse it.
func (a *auditor) countFindings(object Object, name string) {
	counted := map[string]map[string]bool{}
	for _, f := range object.Findings {
		rule := a.rules[f.Rule]
		if rule == nil {
			rule = &Rule{Rule: f.Rule, Refuses: map[string]int{}, KubeVirt: f.KubeVirt, Example: name, Field: f.Field, Message: f.Message}
			a.rules[f.Rule] = rule
		}
		if counted[f.Rule] == nil {
			counted[f.Rule] = map[string]bool{}
			rule.Objects++
		}
		for _, request := range f.Refuses {
			if !counted[f.Rule][request] {
				rule.Refuses[request]++
				counted[f.Rule][request] = true
			}
		}
	}
}

// sortedAudit returns the audit, sorted.
func (a *auditor) sortedAudit() *Audit {
	a.Rules = a.Rules[:0]
	for _, rule := range a.rules {
		a.Rules = append(a.Rules, *rule)
	}
	slices.SortFunc(a.Rules, func(x, y Rule) int { return cmp.Or(y.Objects-x.Objects, strings.Compare(x.Rule, y.Rule)) })
	slices.SortFunc(a.Objects, func(x, y Object) int {
		return cmp.Or(strings.Compare(x.Namespace, y.Namespace), strings.Compare(x.Kind, y.Kind), strings.Compare(x.Name, y.Name))
	})
	slices.Sort(a.Incomplete)
	slices.SortFunc(a.Unjudged, func(x, y Unjudged) int {
		return cmp.Or(strings.Compare(x.What, y.What), strings.Compare(x.Reason, y.Reason))
	})
	if a.repeated > 0 {
		a.Warnings = append(a.Warnings, fmt.Sprintf("objects with the name of an earlier one: %d, for example %s. They were not judged: audit the dumps of several "+
			"clusters one by one", a.repeated, a.example))
	}
	slices.Sort(a.Warnings)
	return a.Audit
}

// Requests are the requests in their order.
var Requests = []string{OnCreate, OnChange, OnStart}

// ByKubeVirt returns the number of refused objects by what KubeVirt does with them: the strictest of its verdicts on their findings.
func (a *Audit) ByKubeVirt() map[validate.KubeVirtVerdict]int {
	order := []validate.KubeVirtVerdict{validate.KubeVirtRefuses, validate.KubeVirtRefusesVMI, validate.KubeVirtRefusesSome, validate.KubeVirtAdmits}
	counts := map[validate.KubeVirtVerdict]int{}
	for _, object := range a.Objects {
		verdicts := map[validate.KubeVirtVerdict]bool{}
		for _, f := range object.Findings {
			verdicts[f.KubeVirt] = true
		}
		for _, verdict := range order {
			if verdicts[verdict] {
				counts[verdict]++
				break
			}
		}
	}
	return counts
}

// refusalsOfCreate returns why a create of the object is refused. Policies that deny a stored VMI are warnings of its verdict.
func refusalsOfCreate(r workbench.Reviewed) field.ErrorList {
	errs := slices.Clone(r.Verdict.Errors)
	if r.GetKind() != v1.VirtualMachineInstanceGroupVersionKind.Kind {
		return errs
	}
	for _, v := range r.Policies.Violations {
		if slices.Contains(v.Actions, v1alpha1.PolicyDeny) {
			errs = append(errs, v.Err)
		}
	}
	return errs
}
