//go:build kubevirt

package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	k8sv1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/tools/cache"
	v1 "kubevirt.io/api/core/v1"
	netadmitter "kubevirt.io/kubevirt/pkg/network/admitter"
	"kubevirt.io/kubevirt/pkg/testutils"
	"kubevirt.io/kubevirt/pkg/virt-api/webhooks"
	mutating "kubevirt.io/kubevirt/pkg/virt-api/webhooks/mutating-webhook"
	validating "kubevirt.io/kubevirt/pkg/virt-api/webhooks/validating-webhook"
	virtconfig "kubevirt.io/kubevirt/pkg/virt-config"
)

// namespace is KubeVirt's.
const namespace = "kubevirt"

// tries is how often each request is sent: KubeVirt walks maps, so that its answers may vary.
const tries = 3

// answer returns what the webhook says of a case in a cluster with a configuration.
func (s *server) answer(c Case, configuration *v1.KubeVirtConfiguration) (Answer, error) {
	if err := s.have(c); err != nil {
		return Answer{}, err
	}
	request, pruned, err := s.request(c)
	if err != nil {
		return Answer{}, err
	}
	a := Answer{ID: c.ID, Pruned: pruned}
	for i := range tries {
		expect, err := s.ask(c, configuration.DeepCopy(), request)
		if err != nil {
			return Answer{}, err
		}
		if i > 0 && !reflect.DeepEqual(a.Expect, expect) {
			a.Varies = true
		}
		a.Expect = expect
	}
	return a, nil
}

// request returns the request of the API server, and the fields that the API server has dropped.
func (s *server) request(c Case) (*admissionv1.AdmissionRequest, []string, error) {
	request := &admissionv1.AdmissionRequest{
		UID: "1", Operation: admissionv1.Create, Namespace: cmp.Or(c.Namespace, "default"), DryRun: new(bool),
		UserInfo: authenticationv1.UserInfo{Username: cmp.Or(c.User, "alice")},
	}
	*request.DryRun = true
	if c.Operation != "" {
		request.Operation = admissionv1.Operation(c.Operation)
	}
	raw, resource := c.VMI, webhooks.VirtualMachineInstanceGroupVersionResource
	if len(c.VM) > 0 {
		raw, resource = c.VM, webhooks.VirtualMachineGroupVersionResource
	}
	request.Resource = resource
	object, pruned, err := s.schemas[resource.Resource].prune(raw)
	if err != nil {
		return nil, nil, err
	}
	request.Object.Raw = object
	if len(c.Old) > 0 {
		old, _, err := s.schemas[resource.Resource].prune(c.Old)
		if err != nil {
			return nil, nil, err
		}
		request.OldObject.Raw = old
	}
	return request, pruned, nil
}

// ask sends a request to the handler that virt-api registers for it.
func (s *server) ask(c Case, configuration *v1.KubeVirtConfiguration, asked *admissionv1.AdmissionRequest) (expect Expect, err error) {
	review := admissionv1.AdmissionReview{TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: asked.DeepCopy()}
	body, err := json.Marshal(review)
	if err != nil {
		return expect, err
	}
	request := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	out := httptest.NewRecorder()
	config, _, _ := testutils.NewFakeClusterConfigUsingKVConfig(configuration)
	informers, err := informersOf(c, asked.Namespace)
	if err != nil {
		return expect, err
	}
	if text := guarded(func() { s.serve(c, config, informers, out, request) }); text != "" {
		return Expect{Panic: text}, nil
	}
	var answered admissionv1.AdmissionReview
	if err := json.Unmarshal(out.Body.Bytes(), &answered); err != nil || answered.Response == nil {
		return expect, fmt.Errorf("status %d, no answer: %q", out.Code, out.Body)
	}
	return expectationOf(answered.Response, c, asked)
}

// serve calls the handler, as virt-api registers it in registerValidatingWebhooks and registerMutatingWebhook.
func (s *server) serve(c Case, config *virtconfig.ClusterConfig, informers *webhooks.Informers, out http.ResponseWriter, request *http.Request) {
	accounts := webhooks.KubeVirtServiceAccounts(namespace)
	switch {
	case c.Kind == "vmi":
		mutating.ServeVMIs(out, request, config, informers, accounts)
	case c.Kind == "vm":
		mutating.ServeVMs(out, request, config, s.client)
	case len(c.VM) > 0:
		validating.ServeVMs(out, request, config, s.client, informers, accounts)
	default:
		validating.ServeVMICreate(out, request, config, accounts,
			func(at *field.Path, spec *v1.VirtualMachineInstanceSpec, config *virtconfig.ClusterConfig) []metav1.StatusCause {
				return netadmitter.Validate(at, spec, config)
			})
	}
}

// guarded returns the text of a panic.
func guarded(call func()) (text string) {
	defer func() {
		if r := recover(); r != nil {
			text = fmt.Sprint(r)
		}
	}()
	call()
	return ""
}

// informersOf are the caches of virt-api. Versions have different ones: each gets an empty store, except those for what a case has.
func informersOf(c Case, namespace string) (*webhooks.Informers, error) {
	informers := &webhooks.Informers{}
	fields := reflect.ValueOf(informers).Elem()
	for i := range fields.NumField() {
		indexers := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc, "vm": func(any) ([]string, error) { return nil, nil }}
		fields.Field(i).Set(reflect.ValueOf(cache.NewSharedIndexInformer(&cache.ListWatch{}, &k8sv1.Namespace{}, 0, indexers)))
	}
	if err := informers.NamespaceInformer.GetStore().Add(&k8sv1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
		return nil, err
	}
	for i := range c.Presets {
		preset := c.Presets[i].DeepCopy()
		preset.Namespace = cmp.Or(preset.Namespace, namespace)
		if err := informers.VMIPresetInformer.GetStore().Add(preset); err != nil {
			return nil, err
		}
	}
	return informers, addDataSources(informers, c)
}

// expectationOf returns a response in the format of test/conformance. Causes are sorted: KubeVirt reports some twice, and in any order.
func expectationOf(response *admissionv1.AdmissionResponse, c Case, asked *admissionv1.AdmissionRequest) (expect Expect, err error) {
	expect.Allowed, expect.Warnings = response.Allowed, response.Warnings
	if response.Allowed {
		if c.Kind == "" {
			return expect, nil
		}
		expect.Object, err = patched(asked.Object, response.Patch)
		return expect, err
	}
	result := response.Result
	if result == nil {
		return expect, fmt.Errorf("refused without a status")
	}
	expect.Code, expect.Reason, expect.Stage = result.Code, string(result.Reason), "semantic"
	if result.Details != nil {
		for _, cause := range result.Details.Causes {
			expect.Causes = append(expect.Causes, Cause{cause.Type, cause.Field, cause.Message})
		}
	}
	slices.SortFunc(expect.Causes, func(a, b Cause) int {
		return cmp.Or(strings.Compare(a.Field, b.Field), strings.Compare(a.Message, b.Message), strings.Compare(string(a.Type), string(b.Type)))
	})
	expect.Causes = slices.Compact(expect.Causes)
	if left := leftOut.FindStringSubmatch(result.Message); left != nil {
		expect.More, _ = strconv.Atoi(left[1])
	}
	if len(expect.Causes) == 0 {
		expect.Message = result.Message
		if !json.Valid(asked.Object.Raw) || strings.Contains(result.Message, "cannot unmarshal") || strings.Contains(result.Message, "must match the regular") {
			expect.Stage = "decode"
		}
		return expect, nil
	}
	// Causes of the schema, and no others, have neither type nor field.
	if !slices.ContainsFunc(expect.Causes, func(c Cause) bool { return c.Type != "" || c.Field != "" || !strings.Contains(c.Message, " in body ") }) {
		expect.Stage = "schema"
	}
	return expect, nil
}

// leftOut ends the message of a refusal with more than ten causes.
var leftOut = regexp.MustCompile(`and (\d+) more validation errors$`)

// patched returns an object with the patch of a webhook. KubeVirt's mutators replace whole fields of the object.
func patched(object runtime.RawExtension, patch []byte) (json.RawMessage, error) {
	if len(patch) == 0 {
		return nil, nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(object.Raw, &fields); err != nil {
		return nil, err
	}
	var operations []struct {
		Op, Path string
		Value    json.RawMessage
	}
	if err := json.Unmarshal(patch, &operations); err != nil {
		return nil, err
	}
	for _, operation := range operations {
		name := strings.TrimPrefix(operation.Path, "/")
		if operation.Op != "replace" && operation.Op != "add" || strings.Contains(name, "/") {
			return nil, fmt.Errorf("the mutator's patch has operation '%s' of '%s'", operation.Op, operation.Path)
		}
		fields[name] = operation.Value
	}
	raw, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	return withoutRandom(object.Raw, raw)
}
