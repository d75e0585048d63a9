package workbench

import (
	"context"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// hidden refuses to say whether a Deployment exists.
type hidden struct{ client.Reader }

func (h hidden) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if _, deployment := object.(*metav1.PartialObjectMetadata); deployment {
		return apierrors.NewForbidden(schema.GroupResource{Group: "apps", Resource: "deployments"}, key.Name, nil)
	}
	return h.Reader.Get(ctx, key, object, options...)
}

// TestHiddenMaker: who may not read the Deployment of KubeVirt has one warning, and may say who runs guests.
func TestHiddenMaker(t *testing.T) {
	t.Parallel()
	in := loaded(t, plain, "apiVersion: kubevirt.io/v1\nkind: KubeVirt\nmetadata: {name: kubevirt, namespace: kubevirt}\n")
	in.Reader, in.OfCluster = hidden{in.Reader}, true
	for runtime, kubevirt := range map[string]bool{"": false, "auto": false, "pod": false, "node": false, "kubevirt": true} {
		bench := &Bench{Runtime: runtime}
		for _, warned := range []bool{runtime == "" || runtime == "auto", false} { // once
			read, warnings, err := bench.Configuration(t.Context(), in)
			if err != nil || read.Limits.KubeVirtGuests != kubevirt || (len(warnings) == 1) != warned || warned && !strings.Contains(warnings[0], "--runtime kubevirt") {
				t.Errorf("--runtime=%s: KubeVirt runs guests: %t, %q, %v", runtime, read.Limits.KubeVirtGuests, warnings, err)
			}
		}
	}
}

// TestNamespaceWithoutAdmission: a verdict says that no webhook gives it, in a namespace from which admission is absent beside KubeVirt.
func TestNamespaceWithoutAdmission(t *testing.T) {
	t.Parallel()
	for label, guests := range map[string]string{"disabled": "kubevirt", "warn": "kubevirt", "disabled ": "pod"} {
		in := loaded(t, plain, "apiVersion: v1\nkind: Namespace\nmetadata: {name: default, labels: {kilnvm.io/admission: "+label+"}}\n")
		in.Named = in.Named[:1]
		in.Named[0].SetNamespace("default")
		reviewed, err := (&Bench{Runtime: guests}).Review(t.Context(), in, nil)
		if err != nil || len(reviewed.Objects) != 1 {
			t.Fatal(err, reviewed.Objects)
		}
		warns := strings.Contains(strings.Join(reviewed.Objects[0].Verdict.Warnings, "\n"), "admission does not judge this: namespace 'default'")
		if warns != (label == "disabled" && guests == "kubevirt") {
			t.Errorf("'%s', %s: warns %q", label, guests, reviewed.Objects[0].Verdict.Warnings)
		}
	}
}
