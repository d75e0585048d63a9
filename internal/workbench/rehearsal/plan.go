package rehearsal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/pin"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
	"github.com/kilnvm/kiln/pkg/record"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// PlannedPins are the pins of a VM, in the form of the annotation kilnvm.io/pins.
type PlannedPins = v1alpha1.Pins

// PlanKind is the kind of a plan file.
const PlanKind = "RehearsalPlan"

// Plan says what a repin of each VM was rehearsed to do. 'kubectl kiln repin --plan' follows it after the changes were made.
type Plan struct {
	APIVersion string     `json:"apiVersion"`
	Kind       string     `json:"kind"`
	Changes    []Change   `json:"changes"`
	Items      []PlanItem `json:"items"`
}

// PlanItem is what a repin of one VM was rehearsed to do.
type PlanItem struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	// ResourceVersion is the version of the VM that was rehearsed, and Content the digest of its spec and of the metadata that Kiln reads. A status changes the
	// version and not the content.
	ResourceVersion string  `json:"resourceVersion"`
	Content         string  `json:"content"`
	Verdict         Verdict `json:"verdict"`
	// From are the pins of the VM, and To the pins that were rehearsed.
	From v1alpha1.Pins `json:"from"`
	To   v1alpha1.Pins `json:"to"`
	// Changes are what the guest notices at its next boot.
	Changes []record.Change `json:"changes"`
}

func plannedPins(pins v1alpha1.Pins) *PlannedPins { return &pins }

// planItem returns the item of a VM that can be repinned.
func planItem(object manifest.Object, r *Result) PlanItem {
	return PlanItem{Namespace: object.GetNamespace(), Name: object.GetName(), UID: string(object.GetUID()), ResourceVersion: object.GetResourceVersion(),
		Content: ContentOfVM(object.Unstructured), Verdict: r.Verdict, From: pin.Read(object), To: *r.Pins, Changes: append([]record.Change{}, r.Changes...)}
}

// ContentOfVM returns the digest of the spec of a VM, and of its labels and annotations that Kiln or KubeVirt read, except the pins.
func ContentOfVM(vm *unstructured.Unstructured) string {
	read := func(all map[string]string) map[string]string {
		kept := map[string]string{}
		for key, value := range all {
			if key != v1alpha1.AnnotationPins && (strings.Contains(key, "kubevirt.io/") || strings.Contains(key, v1alpha1.Prefix)) {
				kept[key] = value
			}
		}
		return kept
	}
	raw, err := json.Marshal([]any{vm.Object["spec"], read(vm.GetLabels()), read(vm.GetAnnotations())})
	if err != nil {
		return err.Error() // equals no digest
	}
	return digestOf(raw)
}

// MakePlan returns the plan of a rehearsal.
func (r *Rehearsal) MakePlan() Plan {
	return Plan{APIVersion: v1alpha1.CommandLineVersion, Kind: PlanKind, Changes: r.Changes, Items: append([]PlanItem{}, r.Plan...)}
}

// Write writes a plan into a file, which has the old or the new plan at any time.
func (p Plan) Write(path string) error {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetIndent("", " ")
	if err := encoder.Encode(p); err != nil {
		return err
	}
	return WriteAtomically(path, text.Bytes())
}

// ReadPlan reads a plan. It fails for a file of another kind, and for a plan that has no pins or names a VM twice.
func ReadPlan(path string) (plan Plan, err error) {
	raw, err := manifest.ReadFile(path)
	if err != nil {
		return plan, err
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&plan); err != nil {
		return plan, fmt.Errorf("%s: %w", path, err)
	}
	if plan.Kind != PlanKind || plan.APIVersion != v1alpha1.CommandLineVersion {
		return plan, fmt.Errorf("%s: must have apiVersion '%s' and kind '%s', as 'kubectl kiln rehearse --plan' writes them", path, v1alpha1.CommandLineVersion,
			PlanKind)
	}
	seen := map[string]bool{}
	for i, item := range plan.Items {
		at := fmt.Sprintf("%s: items[%d]", path, i)
		name := item.Namespace + "/" + item.Name
		switch {
		case item.Namespace == "" || item.Name == "" || item.UID == "":
			return plan, fmt.Errorf("%s: namespace, name and uid must be set: rehearse a cluster or a dump of one", at)
		case seen[name]:
			return plan, fmt.Errorf("%s: '%s' is there twice", at, name)
		case item.Verdict.Rank() < 0:
			return plan, fmt.Errorf("%s: verdict '%s' is unknown", at, item.Verdict)
		case item.To.Equal(v1alpha1.Pins{}):
			return plan, fmt.Errorf("%s: 'to' has no pins", at)
		}
		seen[name] = true
	}
	return plan, nil
}

// Repinnable are the verdicts of VMs that a plan may repin.
var Repinnable = []Verdict{Same, Live, Restart, Breaks}

// ParseVerdicts reads the value of --only.
func ParseVerdicts(names []string) (all []Verdict, err error) {
	for _, name := range names {
		verdict := Verdict(name)
		if !slices.Contains(Repinnable, verdict) {
			return nil, fmt.Errorf("'%s' is no verdict of VMs that can be repinned: use same, live, restart or breaks", name)
		}
		all = append(all, verdict)
	}
	if len(all) == 0 {
		return nil, errors.New("name at least one verdict")
	}
	return all, nil
}
