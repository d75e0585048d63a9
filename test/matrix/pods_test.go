package matrix

import (
	"slices"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/instancetype"
	"github.com/kilnvm/kiln/pkg/pod"
	"github.com/kilnvm/kiln/pkg/render"
	"github.com/kilnvm/kiln/test/samples"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// TestEveryPairInPods: admission refuses exactly the pairs that no pod starts. The pod and the domain of each other pair are made without an error.
func TestEveryPairInPods(t *testing.T) {
	for _, set := range samples.Sets(t) {
		t.Run(set.Name, func(t *testing.T) { everyPairInPods(t, set) })
	}
}

func everyPairInPods(t *testing.T, set samples.Set) {
	anywhere, inPods := config.Default(), config.Default()
	inPods.Limits.Runtime, inPods.Pods.StateClass = config.RuntimePod, "states"
	sizes, preferences := catalog(t, set)
	refused, started, refusing := 0, 0, map[string]bool{}
	for name, spec := range plain {
		vm := machine(t, spec)
		vm.Namespace, vm.Name, vm.UID = "default", "web", "1d9c2f0e-0000-4000-8000-000000000001"
		for _, size := range sizes {
			for _, preference := range preferences {
				in := admit.Input{Set: instancetype.Set{Instancetype: size, Preference: preference}, Cluster: anywhere}
				explicit, verdict := admit.VM(vm, nil, in)
				if !verdict.Allowed() {
					continue
				}
				in.Cluster = inPods
				_, verdict = admit.VM(vm, nil, in)
				pair := name + ", " + size.Name + ", " + preference.Name
				made := startInPod(explicit, inPods)
				if verdict.Allowed() != (len(made) == 0) {
					t.Errorf("%s: admission refuses %v, the pod or the launcher %v", pair, verdict.Errors, made)
				}
				if verdict.Allowed() {
					started++
					continue
				}
				refused++
				refusing[size.Name] = true
				for _, err := range verdict.Errors { // the user must learn which of both objects the pod refuses
					if !strings.Contains(err.Detail, "'"+size.Name+"'") && !strings.Contains(err.Detail, "'"+preference.Name+"'") {
						t.Errorf("%s: the refusal names neither object: %v", pair, err)
					}
				}
			}
		}
	}
	if started == 0 || set.Published() && (refused == 0 || refusing["cx1.medium"] || !refusing["rt1.medium"]) {
		t.Errorf("%d started, %d refused", started, refused)
	}
	t.Logf("%d sizes x %d preferences x %d guests: pods start %d, and admission refuses %d that are admitted elsewhere",
		len(sizes), len(preferences), len(plain), started, refused)
}

// startInPod makes the pod of an explicit VMI, with all that an administrator can allow, and renders its domain. It returns the errors of the first step that
// has any.
func startInPod(explicit *v1.VirtualMachineInstance, cluster config.Cluster) field.ErrorList {
	in := pod.Input{VMI: explicit, NetworkResources: map[string]string{}, Claims: map[string]pod.Claim{"root": {}},
		Settings: pod.Settings{Image: "launcher", Network: pod.Passt, Taps: true, LockedMemory: true, StateClass: cluster.Pods.StateClass}}
	for _, network := range explicit.Spec.Networks {
		if network.Multus != nil {
			in.NetworkResources[network.Multus.NetworkName] = "example.org/" + network.Name
		}
	}
	if _, errs := pod.New(in); len(errs) > 0 {
		return errs
	}
	_, errs := render.Domain(render.Machine{VMI: explicit, Defaults: cluster.Frontend, Host: backend.Assumed(explicit.Spec.Architecture),
		Bindings: backend.AssumedBindings(explicit)})
	return slices.Clone(errs)
}
