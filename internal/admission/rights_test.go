package admission

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/resolve"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// cloned is a VM whose size is what an image in another namespace recommends.
const cloned = `
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: web, namespace: team, labels: {a: b}}
spec:
  runStrategy: Always
  instancetype: {inferFromVolume: root}
  dataVolumeTemplates: [{metadata: {name: d}, spec: {source: {pvc: {name: image, namespace: golden}}, storage: {}}}]
  template: {spec: {domain: {devices: {}}, volumes: [{name: root, dataVolume: {name: d}}]}}
`

const waiting = `annotations: {kilnvm.io/inference: '["persistentvolumeclaims/golden/image"]'}, `

func TestWhoMayInfer(t *testing.T) {
	const image = `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: image, namespace: golden, ` +
		`labels: {instancetype.kubevirt.io/default-instancetype: small}}}`
	with := func(annotations string) string {
		return strings.Replace(cloned, "labels: {a: b}", annotations+"labels: {a: b}", 1)
	}
	changed := func(document, from, to string) string { return strings.Replace(document, from, to, 1) }
	for _, test := range []struct {
		name, why, user, before, after string
		objects                        []string
		allowed                        bool
		recorded                       string // annotation
		reviews                        int
	}{
		{name: "may", why: "asked once for each source", user: "ann", after: cloned, objects: []string{image}, allowed: true, reviews: 1},
		{name: "may, to come", why: "what was allowed is recorded for the controller", user: "ann", after: cloned, allowed: true,
			recorded: `["persistentvolumeclaims/golden/image"]`, reviews: 1},
		{name: "may not", why: "Kiln could read it, the caller cannot", user: "bob", after: cloned, objects: []string{image}, reviews: 1},
		{name: "may not, to come", why: "the answer must not tell what exists", user: "bob", after: cloned, reviews: 1},
		{name: "forged", why: "rights are asked for, whatever the annotation says", user: "bob", after: with(waiting), objects: []string{image}, reviews: 1},
		{name: "label by another", why: "nothing is asked for", user: "bob", before: with(waiting), after: changed(with(waiting), "a: b", "a: c"), allowed: true,
			recorded: `["persistentvolumeclaims/golden/image"]`},
		{name: "annotation changed by another", why: "it is admission's", user: "bob", before: with(waiting),
			after: changed(with(waiting), "golden/image", "golden/*"), allowed: true, recorded: `["persistentvolumeclaims/golden/image"]`},
		{name: "annotation dropped", why: "kubectl replace", user: "bob", before: with(waiting), after: cloned, allowed: true,
			recorded: `["persistentvolumeclaims/golden/image"]`},
		{name: "started by another", why: "the inference stays authorised by the user who requested it", user: "bob", before: with(waiting),
			after: changed(with(waiting), "Always", "Halted"), objects: []string{image}, allowed: true},
		{name: "source changed by another", why: "an inference of their own", user: "bob", before: with(waiting),
			after: changed(with(waiting), "name: image,", "name: secret,"), reviews: 1},
		{name: "new pin asked for by another", why: "an inference of their own", user: "bob", before: with(waiting),
			after: with(changed(waiting, "annotations: {", "annotations: {kilnvm.io/pins: '', ")), objects: []string{image}, reviews: 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCluster(t, append(test.objects, catalog)...)
			reviews := 0
			c.MayRead = func(_ context.Context, user authenticationv1.UserInfo, source resolve.Source) (bool, error) {
				reviews++
				return user.Username == "ann", nil
			}
			request := create(t, test.after)
			if test.before != "" {
				request = update(t, test.before, test.after)
			}
			request.UserInfo.Username = test.user
			response := ask(t, c.Hooks()[MutateVM], request)
			if response.Allowed != test.allowed || reviews != test.reviews {
				t.Fatalf("%s: allowed %v, %d reviews, %+v", test.why, response.Allowed, reviews, response.Result)
			}
			if !test.allowed {
				forbidden(t, response)
				return
			}
			var after metav1.PartialObjectMetadata
			if err := json.Unmarshal([]byte(patched(t, request, response)), &after); err != nil {
				t.Fatal(err)
			}
			if got := after.Annotations[v1alpha1.AnnotationInference]; got != test.recorded {
				t.Errorf("%s: recorded '%s', want '%s'", test.why, got, test.recorded)
			}
		})
	}
}

func forbidden(t *testing.T, response *admissionv1.AdmissionResponse) {
	t.Helper()
	cause := response.Result.Details.Causes[0]
	if response.Result.Code != 422 || cause.Field != "spec.instancetype.inferFromVolume" || cause.Type != "FieldValueForbidden" {
		t.Errorf("%+v, want forbidden at the reference", response.Result)
	}
}
