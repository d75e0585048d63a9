package bench

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/admission"
	"github.com/kilnvm/kiln/pkg/policy"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// administered are the policies and the profiles of a cluster, as many of each as the issue of profiles and policies names.
const administered = 50

// validations are what administrators write; each policy has one of them.
var validations = []string{
	`instancetype != null && instancetype.metadata.name.size() > 0`,
	`guest == null || quantity(guest.spec.domain.memory.guest).compareTo(quantity('64Gi')) <= 0`,
	`guest == null || (!has(guest.spec.domain.devices.gpus) && !has(guest.spec.domain.devices.hostDevices))`,
	`guest == null || guest.spec.domain.devices.disks.all(d, d.name.matches('^[a-z][a-z0-9-]*$'))`,
	`object.metadata.namespace == namespaceObject.metadata.name && request.operation == 'CREATE'`,
}

// policies returns compiled policies that all match and allow the inputs.
func policies(b *testing.B) (all []*policy.Policy) {
	b.Helper()
	for i := range administered {
		of := &v1alpha1.GuestPolicy{}
		of.Name = fmt.Sprintf("policy-%d", i)
		of.Spec.Validations = []v1alpha1.GuestPolicyValidation{{Expression: validations[i%len(validations)], Message: "refused"}}
		compiled, errs := policy.Compile(of)
		if len(errs) > 0 {
			b.Fatal(errs)
		}
		all = append(all, compiled)
	}
	return all
}

// profiles returns profiles of both kinds that all select the inputs, and each of which fills an annotation.
func profiles(b *testing.B) (all []*unstructured.Unstructured) {
	b.Helper()
	for i := range administered {
		metadata, kind := fmt.Sprintf("{name: profile-%d, uid: u%d, resourceVersion: '1'}", i, i), v1alpha1.KindClusterGuestProfile
		if i%2 == 0 {
			metadata, kind = fmt.Sprintf("{name: profile-%d, namespace: default, uid: u%d, resourceVersion: '1'}", i, i), "GuestProfile"
		}
		object := &unstructured.Unstructured{}
		text := fmt.Sprintf("{apiVersion: kilnvm.io/v1alpha1, kind: %s, metadata: %s, spec: {priority: %d, selector: {},\n"+
			"  template: {metadata: {annotations: {bench.example/profile-%d: filled}}, spec: {domain: {devices: {networkInterfaceMultiqueue: true}}}}}}",
			kind, metadata, i, i)
		if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
			b.Fatal(err)
		}
		all = append(all, object)
	}
	return all
}

// List shares what it returns, as a manager's cache does for a caller that asks for no copies.
func (c cache) List(ctx context.Context, into client.ObjectList, options ...client.ListOption) error {
	list, untyped := into.(*unstructured.UnstructuredList)
	if !untyped {
		return c.Reader.List(ctx, into, options...)
	}
	for _, object := range c.shared {
		if object.GetKind()+"List" == list.GetKind() {
			list.Items = append(list.Items, *object)
		}
	}
	return nil
}

// BenchmarkPoliciesAndProfiles measures a review of the mid VM with 50 policies and 50 profiles that all match, beside one without. Metric ms-more is the
// difference in milliseconds, of which the issue allows 1.0, and x-none the ratio: medians of turns that alternate.
func BenchmarkPoliciesAndProfiles(b *testing.B) {
	for _, bench := range []struct{ name, path string }{{"mutate", admission.MutateVM}, {"validate", admission.ValidateVM}} {
		for _, with := range []string{"both", "policies", "profiles"} {
			b.Run(bench.name+"/"+with, func(b *testing.B) {
				raw := input(b, "review-vm-it-mid.json")
				var shared []*unstructured.Unstructured
				if with != "policies" {
					shared = profiles(b)
				}
				loaded := server(b, shared...)
				if with != "profiles" {
					all := policies(b)
					loaded.Reviewer.Policies = func() ([]*policy.Policy, error) { return all, nil }
				}
				more(b, answering(b, loaded.Hooks()[bench.path], raw), answering(b, server(b).Hooks()[bench.path], raw))
			})
		}
	}
}

// answering returns a call of a hook that must be allowed.
func answering(b *testing.B, hook admission.Hook, raw []byte) func() {
	return func() {
		response, err := hook.Answer(b.Context(), raw)
		if err != nil || !bytes.Contains(response, []byte(`"allowed":true`)) {
			b.Fatalf("%v %s", err, response)
		}
	}
}

// more reports by how much work takes longer than none.
func more(b *testing.B, work, none func()) {
	b.ReportAllocs()
	for b.Loop() {
		work()
	}
	const turns, rounds = 201, 2
	var differences, ratios []float64
	for range turns {
		long, short := clocked(rounds, work), clocked(rounds, none)
		differences = append(differences, float64(long-short)/rounds/float64(time.Millisecond))
		ratios = append(ratios, float64(long)/float64(short))
	}
	slices.Sort(differences)
	slices.Sort(ratios)
	b.ReportMetric(differences[turns/2], "ms-more")
	b.ReportMetric(ratios[turns/2], "x-none")
}
