// Package corpus reads the cases beside it: the specification of Kiln by example. A case is a folder '<area>-<what>':
//
//	vm.yaml or vmi.yaml   what a user applies; its first line says the point of the case
//	cluster.yaml          what the cluster has: instancetypes, preferences, presets, profiles, a KubeVirt object with configuration,
//	                      and its Deployment virt-controller where KubeVirt runs the guests
//	host.yaml             capabilities and bindings, laid over the assumed ones
//	admitted.yaml         the explicit VMI, or
//	denied.txt            every cause of the refusal; beside admitted.yaml, of the host's
//	frontend.xml          what the guest sees
//	domain.diff           the complete domain, as its difference to frontend.xml
//	pod.yaml              the pod, as far as it differs from testdata/pod.yaml; warnings and refusals of it are comments
package corpus

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/internal/review"
	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/record"
	"github.com/kilnvm/kiln/pkg/render"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// Case is one case of the corpus, read from its folder.
type Case struct {
	Name, Dir string
	// VM or VMI is the input.
	VM  *v1.VirtualMachine
	VMI *v1.VirtualMachineInstance
	// Objects of the cluster, and its configuration.
	Objects []*unstructured.Unstructured
	Cluster config.Cluster
	host    []byte // host.yaml, nil without
	applied []byte // vm.yaml or vmi.yaml
}

// Applied returns the object that the user applies, as it is written.
func (c Case) Applied() *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(c.applied, &object.Object); err != nil {
		panic(err) // it has been decoded before
	}
	return object
}

// Load reads the cases of a folder.
func Load(dir string) ([]Case, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var cases []Case
	for _, entry := range entries {
		if !entry.IsDir() || entry.Name() == "testdata" || entry.Name() == requestsDir {
			continue
		}
		c, err := readCase(filepath.Join(dir, entry.Name()))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", entry.Name(), err)
		}
		cases = append(cases, c)
	}
	return cases, nil
}

// Admitted is what stage 1 makes of a case.
type Admitted struct {
	// Explicit is the VMI; nil when its references are refused.
	Explicit *v1.VirtualMachineInstance
	Verdict  admit.Verdict
	// Known is false when the instancetype or preference does not exist yet: the VMI is then admitted as it was written.
	Known bool
	// Input is what the engine judged the case by.
	Input admit.Input
	// Explain reports where the fields of the VMI come from.
	Explain func() admit.Explanation
}

// Admit reviews a case as the webhooks of VMs and VMIs do.
func (c Case) Admit(ctx context.Context) (Admitted, error) {
	reviewer := newReviewer(c.Objects, c.Cluster)
	if c.VM != nil {
		reviewed, err := reviewer.ReviewVM(ctx, c.VM, nil, review.Asker{})
		return Admitted{reviewed.Explicit, reviewed.Verdict, err == nil && !reviewed.Unknown(), reviewed.Input, reviewed.Explain}, err
	}
	reviewed, err := reviewer.ReviewVMI(ctx, c.VMI, review.Asker{})
	explain := func() admit.Explanation { return reviewed.Explain(nil, nil) }
	return Admitted{reviewed.Explicit, reviewed.Verdict, true, reviewed.Input, explain}, err
}

// newReviewer reviews by the objects and the configuration of a cluster.
func newReviewer(known []*unstructured.Unstructured, cluster config.Cluster) review.Reviewer {
	return review.Reviewer{
		Resolver:      resolve.Resolver{Cached: objects.New(scheme, known...)},
		Configuration: func() config.Cluster { return cluster },
	}
}

// Start is what the launcher adds to an explicit VMI: the facts of a host.
type Start struct {
	Capabilities backend.Capabilities `json:"capabilities"`
	Bindings     backend.Bindings     `json:"bindings"`
	// Frozen is the record of an earlier boot.
	Frozen *record.Record `json:"frozen,omitempty"`
}

// Machine returns the explicit VMI with the case's host.
func (c Case) Machine(explicit *v1.VirtualMachineInstance) (render.Machine, error) {
	start := Start{Capabilities: backend.Assumed(explicit.Spec.Architecture), Bindings: backend.AssumedBindings(explicit)}
	if err := decodeStrict(c.host, &start); err != nil {
		return render.Machine{}, fmt.Errorf("host.yaml: %w", err)
	}
	vmi := explicit.DeepCopy()
	vmi.UID = uid
	return render.Machine{VMI: vmi, Defaults: c.Cluster.Frontend, Frozen: start.Frozen, Host: start.Capabilities, Bindings: start.Bindings}, nil
}

// uid stands for the one that the API server gives; identity derives from it.
const uid = "5f0c1f6e-6d2a-4c7b-9a43-8f3e1d2c7b6a"

// Render runs stages 2 and 3 as the launcher does.
func (c Case) Render(explicit *v1.VirtualMachineInstance) (render.Result, field.ErrorList, error) {
	machine, err := c.Machine(explicit)
	if err != nil {
		return render.Result{}, nil, err
	}
	rendered, errs := render.Domain(machine)
	return rendered, errs, nil
}
