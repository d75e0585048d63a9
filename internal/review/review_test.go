package review

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/pin"
	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/internal/revision"
	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/config"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

const namespace = "team"

// reading returns a reader of objects in YAML.
func reading(t *testing.T, known ...*unstructured.Unstructured) objects.Reader {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(appsv1.AddToScheme(scheme), corev1.AddToScheme(scheme), v1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	return objects.New(scheme, known...)
}

func parsed[T any](t *testing.T, text string) *T {
	t.Helper()
	object := new(T)
	if err := yaml.UnmarshalStrict([]byte(text), object); err != nil {
		t.Fatal(err)
	}
	return object
}

func untyped(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	return &unstructured.Unstructured{Object: *parsed[map[string]any](t, text)}
}

// stored is the revision of an object.
func stored(t *testing.T, object *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	draft, err := revision.NewDraft(namespace, object)
	if err != nil {
		t.Fatal(err)
	}
	made := draft.Object()
	made.TypeMeta = metav1.TypeMeta{APIVersion: "apps/v1", Kind: "ControllerRevision"}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(made)
	if err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: content}
}

// configured is a cluster with a CPU model, and the revision of that configuration.
func configured(t *testing.T, model string) (config.Cluster, *unstructured.Unstructured) {
	t.Helper()
	cluster := config.Default()
	cluster.Defaults.CPUModel = model
	object, err := config.Snapshot(cluster.Defaults)
	if err != nil {
		t.Fatal(err)
	}
	return cluster, stored(t, &unstructured.Unstructured{Object: object})
}

// machine is a VM with pins, if any are given.
func machine(t *testing.T, pins string) *v1.VirtualMachine {
	t.Helper()
	vm := parsed[v1.VirtualMachine](t, `
metadata: {name: a, namespace: team}
spec:
  runStrategy: Always
  template: {metadata: {labels: {app: web}}, spec: {domain: {memory: {guest: 1Gi}, devices: {}}}}
`)
	if pins != "none" {
		vm.Annotations = map[string]string{v1alpha1.AnnotationPins: pins}
	}
	return vm
}

// A reload between two reads would judge a VM by one configuration and pin it to the next.
func TestConfigurationIsReadOnce(t *testing.T) {
	vmi := admit.Instance(machine(t, "none"))
	expanding := parsed[v1.VirtualMachine](t, "metadata: {name: a, namespace: team}\nspec:\n  runStrategy: Always\n  instancetype: {name: s}\n"+
		"  template: {spec: {domain: {devices: {}}}}\n")
	small := untyped(t, "apiVersion: instancetype.kubevirt.io/v1beta1\nkind: VirtualMachineClusterInstancetype\nmetadata: {name: s}\n"+
		"spec: {cpu: {guest: 1}, memory: {guest: 1Gi}}\n")
	_, first := configured(t, "Haswell")
	for _, test := range []struct {
		name string
		// review returns the CPU model that the object was judged with, and the configuration that it is pinned to.
		review func(Reviewer) (model, pinned string, err error)
		pinned string
	}{
		{"a VM whose owner asks for new pins", func(r Reviewer) (string, string, error) {
			reviewed, err := r.ReviewVM(t.Context(), machine(t, ""), machine(t, `{"configuration":"old"}`), Asker{})
			vm, _ := reviewed.Stored()
			return reviewed.Explicit.Spec.Domain.CPU.Model, pin.Read(vm).Configuration, err
		}, first.GetName()},
		{"a VM that is expanded", func(r Reviewer) (string, string, error) {
			reviewed, err := r.PrepareVM(t.Context(), expanding, nil, Asker{})
			vm, _ := reviewed.Stored()
			return vm.Spec.Template.Spec.Domain.CPU.Model, "", err
		}, ""},
		{"a VM that lost its pins", func(r Reviewer) (string, string, error) {
			reviewed, err := r.PrepareVM(t.Context(), machine(t, "none"), machine(t, `{"configuration":"old"}`), Asker{})
			vm, _ := reviewed.Stored()
			return "Haswell", pin.Read(vm).Configuration, err
		}, "old"},
		{"a VMI", func(r Reviewer) (string, string, error) {
			reviewed, err := r.ReviewVMI(t.Context(), vmi, Asker{})
			return reviewed.Explicit.Spec.Domain.CPU.Model, "", err
		}, ""},
		{"an explicit VMI", func(r Reviewer) (string, string, error) {
			_, err := r.ReviewExplicitVMI(t.Context(), vmi, Asker{})
			return "Haswell", "", err
		}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			reads := 0
			reviewer := Reviewer{Resolver: resolve.Resolver{Cached: reading(t, small)}, Configuration: func() config.Cluster {
				reads++
				cluster, _ := configured(t, []string{"Haswell", "Nehalem"}[min(reads, 2)-1]) // another one from the second read on
				cluster.Policy = v1.ExpandAll
				return cluster
			}}
			model, pinned, err := test.review(reviewer)
			if err != nil || reads != 1 || model != "Haswell" || pinned != test.pinned {
				t.Errorf("%d reads, judged by model '%s', pinned to '%s' instead of '%s': %v", reads, model, pinned, test.pinned, err)
			}
		})
	}
}

// TestVMIKeepsWhatItIsPinnedTo: a VMI is made from what its VM is pinned to.
func TestVMIKeepsWhatItIsPinnedTo(t *testing.T) {
	preset := func(policy string) *unstructured.Unstructured {
		return untyped(t, "apiVersion: kubevirt.io/v1\nkind: VirtualMachineInstancePreset\nmetadata: {name: p, namespace: team}\n"+
			"spec: {selector: {matchLabels: {app: web}}, domain: {ioThreadsPolicy: "+policy+"}}\n")
	}
	was := stored(t, preset("shared"))
	now, _ := configured(t, "Nehalem")
	_, before := configured(t, "Haswell")
	r := Reviewer{Resolver: resolve.Resolver{Cached: reading(t, preset("auto"), was, before)}, Configuration: func() config.Cluster { return now }}
	for _, test := range []struct{ name, pins, policy, model string }{
		{"pinned", `{"presets":["` + was.GetName() + `"],"configuration":"` + before.GetName() + `"}`, "shared", "Haswell"},
		{"pinned to no preset", `{"presets":[]}`, "", "Nehalem"},
		{"of an earlier release", `{"instancetype":"(none)"}`, "auto", "Nehalem"},
	} {
		reviewed, err := r.ReviewVMI(t.Context(), admit.Instance(machine(t, test.pins)), Asker{})
		if err != nil {
			t.Fatal(err)
		}
		policy := ""
		if p := reviewed.Explicit.Spec.Domain.IOThreadsPolicy; p != nil {
			policy = string(*p)
		}
		if model := reviewed.Explicit.Spec.Domain.CPU.Model; !reviewed.Allowed() || policy != test.policy || model != test.model {
			t.Errorf("%s: policy '%s', model '%s', %v; want '%s', '%s'", test.name, policy, model, reviewed.Errors, test.policy, test.model)
		}
	}
	_, err := r.ReviewVMI(t.Context(), admit.Instance(machine(t, `{"configuration":"gone"}`)), Asker{})
	if err == nil || errors.As(err, new(*resolve.Refusal)) {
		t.Errorf("%v, want a fault of ours", err)
	}
}

// TestNobodyWaitsForThis: work ends when the caller has gone, and says so.
func TestNobodyWaitsForThis(t *testing.T) {
	ctx, hangUp := context.WithCancel(t.Context())
	hangUp()
	r := Reviewer{Resolver: resolve.Resolver{Cached: reading(t)}, Configuration: config.Default}
	if _, err := r.ReviewVM(ctx, machine(t, "none"), nil, Asker{}); !errors.Is(err, context.Canceled) {
		t.Errorf("VM: %v", err)
	}
	if _, err := r.ReviewVMI(ctx, admit.Instance(machine(t, "none")), Asker{}); !errors.Is(err, context.Canceled) {
		t.Errorf("VMI: %v", err)
	}
}

// A review gives away copies: what is sent stays as it was.
func TestReviewChangesNothing(t *testing.T) {
	r := Reviewer{Resolver: resolve.Resolver{Cached: reading(t)}, Configuration: config.Default}
	vm := machine(t, "")
	before, err := json.Marshal(vm)
	if err != nil {
		t.Fatal(err)
	}
	reviewed, err := r.ReviewVM(t.Context(), vm, nil, Asker{})
	if err != nil {
		t.Fatal(err)
	}
	if stored, _ := reviewed.Stored(); stored.Annotations[v1alpha1.AnnotationPins] == "" {
		t.Error("the VM was not pinned")
	}
	if after, err := json.Marshal(vm); err != nil || string(after) != string(before) {
		t.Errorf("%s became %s, %v", before, after, err)
	}
}
