package admission

import (
	"context"
	"encoding/json"
	"errors"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/kilnvm/kiln/internal/kubevirt/virtcontroller"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/internal/review"
	"github.com/kilnvm/kiln/internal/revision"
	"github.com/kilnvm/kiln/pkg/config"
	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// catalog is one size.
const catalog = `
apiVersion: instancetype.kubevirt.io/v1beta1
kind: VirtualMachineClusterInstancetype
metadata: {name: small, uid: u, generation: 1}
spec: {cpu: {guest: 2}, memory: {guest: 1Gi}}
`

const sparse = `
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: web, namespace: team}
spec:
  runStrategy: Always
  instancetype: {name: small}
  template: {spec: {domain: {devices: {}}}}
`

// cluster is a server over objects from files, and the revisions that it was told to write.
type cluster struct {
	Server
	written []revision.Draft
}

// installed is the configuration of a cluster with Kiln in a namespace of somebody's choice.
func installed() config.Cluster {
	return config.Default().InstalledIn(config.Installation{Kiln: "machines"})
}

func newCluster(t *testing.T, documents ...string) *cluster {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(appsv1.AddToScheme(scheme), v1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	var known []*unstructured.Unstructured
	for _, document := range documents {
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(toJSON(t, document)); err != nil {
			t.Fatal(err)
		}
		known = append(known, object)
	}
	reader := objects.New(scheme, known...)
	c := &cluster{Server: Server{Reviewer: review.Reviewer{Resolver: resolve.Resolver{Cached: reader, Live: reader}, Configuration: installed,
		KubeVirt: virtcontroller.Completer{}}}}
	c.Write = func(_ context.Context, drafts ...revision.Draft) error {
		c.written = append(c.written, drafts...)
		return nil
	}
	return c
}

func toJSON(t *testing.T, document string) []byte {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(document))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// create is the request to create what a document says.
func create(t *testing.T, document string) *admissionv1.AdmissionRequest {
	t.Helper()
	data := toJSON(t, document)
	var meta metav1.PartialObjectMetadata
	if err := json.Unmarshal(data, &meta); err != nil {
		t.Fatal(err)
	}
	kind := meta.GroupVersionKind()
	return &admissionv1.AdmissionRequest{
		UID: "review-1", Operation: admissionv1.Create, Name: meta.Name, Namespace: "team",
		Kind:   metav1.GroupVersionKind{Group: kind.Group, Version: kind.Version, Kind: kind.Kind},
		Object: runtime.RawExtension{Raw: data},
	}
}

// update is the request to change an object from one document to another.
func update(t *testing.T, before, after string) *admissionv1.AdmissionRequest {
	t.Helper()
	request := create(t, after)
	request.Operation, request.OldObject.Raw = admissionv1.Update, toJSON(t, before)
	return request
}

// ask sends a request as the API server does, and reads the answer.
func ask(t *testing.T, hook Hook, request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	t.Helper()
	review := admissionv1.AdmissionReview{TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: request}
	body, err := json.Marshal(review)
	if err != nil {
		t.Fatal(err)
	}
	recorder := httptest.NewRecorder()
	hook.ServeHTTP(recorder, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(string(body))))
	var answered admissionv1.AdmissionReview
	if err := json.Unmarshal(recorder.Body.Bytes(), &answered); err != nil || answered.Response == nil {
		t.Fatalf("status %d, body %s: %v", recorder.Code, recorder.Body, err)
	}
	if answered.Response.UID != request.UID || answered.Kind != "AdmissionReview" {
		t.Errorf("the answer is for request '%s', kind '%s'", answered.Response.UID, answered.Kind)
	}
	return answered.Response
}

// patched is the object after the answer's patch.
func patched(t *testing.T, request *admissionv1.AdmissionRequest, response *admissionv1.AdmissionResponse) string {
	t.Helper()
	if !response.Allowed {
		t.Fatalf("refused: %+v", response.Result)
	}
	if response.Patch == nil {
		return string(request.Object.Raw)
	}
	patch, err := jsonpatch.DecodePatch(response.Patch)
	if err != nil {
		t.Fatal(err)
	}
	after, err := patch.Apply(request.Object.Raw)
	if err != nil {
		t.Fatalf("patch %s: %v", response.Patch, err)
	}
	return string(after)
}
