package manifests_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/instancetype"
	"github.com/kilnvm/kiln/pkg/validate"
	"github.com/kilnvm/kiln/test/corpus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
)

// wrong is an object that one rule of a policy refuses: a merge patch of the spec of one that no rule refuses.
type wrong struct{ rule, patch string }

// labelled is a right object whose metadata one rule of a policy refuses.
type labelled struct {
	rule                string
	labels, annotations map[string]string
}

// rightSpec is the spec of a guest that no rule refuses. The match conditions of the policies leave it out, so that each patch shows that they do not leave
// out what the patch makes wrong.
const rightSpec = `{"domain": {"memory": {"guest": "1Gi"}, "devices": {
	"disks": [{"name": "a", "disk": {"bus": "virtio"}}], "interfaces": [{"name": "a", "masquerade": {}}]}},
	"volumes": [{"name": "a", "emptyDisk": {"capacity": "1Gi"}}], "networks": [{"name": "a", "pod": {}}]}`

// judged is a kind with its objects and with what the engine says of them.
type judged struct {
	kind, apiVersion, right string
	wrong                   []wrong
	judge                   func(t *testing.T, object []byte) field.ErrorList
}

func kinds() []judged {
	judgeInstancetype := func(t *testing.T, object []byte) field.ErrorList {
		read := decoded[v1beta1.VirtualMachineInstancetype](t, object)
		return append(validate.Instancetype(&read.Spec, nil), instancetype.LifecycleMistakes(read)...)
	}
	judgePreference := func(t *testing.T, object []byte) field.ErrorList {
		read := decoded[v1beta1.VirtualMachinePreference](t, object)
		return append(validate.Preference(&read.Spec, nil), instancetype.LifecycleMistakes(read)...)
	}
	var inVMs []wrong
	for _, w := range wrongGuests {
		inVMs = append(inVMs, wrong{w.rule, `{"template": {"spec": ` + w.patch + `}}`})
	}
	core, catalog := v1.GroupVersion.String(), v1beta1.SchemeGroupVersion.String()
	return []judged{
		{"VirtualMachineInstance", core, rightSpec, wrongGuests, judgeVMI},
		{"VirtualMachine", core, `{"runStrategy": "Halted", "template": {"spec": ` + rightSpec + `}}`, append(inVMs, wrongVMs...), judgeVM},
		{"VirtualMachineInstancetype", catalog, `{"cpu": {"guest": 1}, "memory": {"guest": "1Gi"}}`, wrongInstancetypes, judgeInstancetype},
		{"VirtualMachineClusterPreference", catalog, `{}`, wrongPreferences, judgePreference},
	}
}

func judgeVMI(t *testing.T, object []byte) field.ErrorList {
	return engine(t, corpus.Case{VMI: decoded[v1.VirtualMachineInstance](t, object)})
}

func judgeVM(t *testing.T, object []byte) field.ErrorList {
	return engine(t, corpus.Case{VM: decoded[v1.VirtualMachine](t, object)})
}

// engine judges an object in a cluster without any other.
func engine(t *testing.T, c corpus.Case) field.ErrorList {
	c.Cluster = config.Default()
	admitted, err := c.Admit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return admitted.Verdict.Errors
}

func decoded[T any](t *testing.T, raw []byte) *T {
	t.Helper()
	object := new(T)
	if err := json.Unmarshal(raw, object); err != nil {
		t.Fatal(err)
	}
	return object
}

// agreement: for each rule of a policy, API server and engine accept one object and refuse another, by the same rule. There is
// no webhook then.
func agreement(t *testing.T, p plane) {
	server, shown := p.client(t, rest.ImpersonationConfig{}), map[string]bool{}
	for _, kind := range kinds() {
		if err := create(t.Context(), server, kind.object(t, kind.right)); err != nil {
			t.Fatalf("the API server refuses a right %s: %v", kind.kind, err)
		}
		if errs := kind.judge(t, raw(t, kind.object(t, kind.right))); len(errs) > 0 {
			t.Fatalf("the engine refuses a right %s: %v", kind.kind, errs)
		}
		refused := func(rule string, object *unstructured.Unstructured) {
			if err := create(t.Context(), server, object); err == nil || !strings.Contains(err.Error(), "(rule "+rule+")") {
				t.Errorf("%s, %s: the API server says %v", kind.kind, rule, err)
			}
			errs := kind.judge(t, raw(t, object))
			if !slices.ContainsFunc(errs, func(err *field.Error) bool { return err.Origin == rule }) {
				t.Errorf("%s, %s: the engine says %v", kind.kind, rule, errs)
			}
			shown[rule] = true
		}
		for _, w := range kind.wrong {
			refused(w.rule, kind.object(t, string(merged(t, kind.right, w.patch))))
		}
		if kind.apiVersion == v1beta1.SchemeGroupVersion.String() {
			for _, w := range wrongLifecycles {
				refused(w.rule, w.on(kind.object(t, kind.right)))
			}
			if err := create(t.Context(), server, rightLifecycle.on(kind.object(t, kind.right))); err != nil {
				t.Errorf("the API server refuses a lifecycle of a %s: %v", kind.kind, err)
			}
		}
	}
	for _, rule := range policyRules(t, p) {
		if !shown[rule] && !slices.Contains(changeRules, rule) {
			t.Errorf("no object shows that a policy keeps rule '%s'", rule)
		}
	}
}

// mostDisks is what the schema of a guest allows.
const mostDisks = 256

// nothingMore: a policy refuses nothing that the engine does not: of all cases of the corpus, and of a guest as large as any.
func nothingMore(t *testing.T, p plane) {
	server := p.client(t, rest.ImpersonationConfig{})
	cases, err := corpus.Load("../test/corpus")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		admitted, err := c.Admit(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		err = create(t.Context(), server, c.Applied())
		if err == nil || !strings.Contains(err.Error(), "ValidatingAdmissionPolicy") {
			continue
		}
		rule := ruleOf.FindStringSubmatch(err.Error())
		if rule == nil || !slices.ContainsFunc(admitted.Verdict.Errors, func(e *field.Error) bool { return e.Origin == rule[1] }) {
			t.Errorf("%s: the API server says %v, the engine %v", c.Name, err, admitted.Verdict.Errors)
		}
	}
	var disks, volumes []string
	for i := range mostDisks {
		disks = append(disks, fmt.Sprintf(`{"name": "d%d", "disk": {"bus": "virtio"}, "serial": "s%d", "cache": "none",
			"blockSize": {"custom": {"logical": 512, "physical": 4096}}}`, i, i))
		volumes = append(volumes, fmt.Sprintf(`{"name": "d%d", "persistentVolumeClaim": {"claimName": "d%d"}}`, i, i))
	}
	large := judged{kind: "VirtualMachineInstance", apiVersion: v1.GroupVersion.String()}
	spec := `{"domain": {"devices": {"disks": [` + strings.Join(disks, ",") + `]}}, "volumes": [` + strings.Join(volumes, ",") + `]}`
	if err := create(t.Context(), server, large.object(t, spec)); err != nil {
		t.Errorf("%d disks cost a policy too much: %v", mostDisks, err)
	}
}

func (j judged) object(t *testing.T, spec string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": j.apiVersion, "kind": j.kind, "metadata": map[string]any{"name": "judged"}}}
	var content map[string]any
	if err := json.Unmarshal([]byte(spec), &content); err != nil {
		t.Fatalf("%v: %s", err, spec)
	}
	object.Object["spec"] = content
	return object
}

// on labels and annotates an object.
func (l labelled) on(object *unstructured.Unstructured) *unstructured.Unstructured {
	object.SetLabels(l.labels)
	object.SetAnnotations(l.annotations)
	return object
}

func merged(t *testing.T, document, patch string) []byte {
	t.Helper()
	after, err := jsonpatch.MergePatch([]byte(document), []byte(patch))
	if err != nil {
		t.Fatalf("%s: %v", patch, err)
	}
	return after
}

func raw(t *testing.T, object *unstructured.Unstructured) []byte {
	t.Helper()
	data, err := object.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// client speaks to the API server as somebody.
func (p plane) client(t *testing.T, as rest.ImpersonationConfig) dynamic.Interface {
	t.Helper()
	configuration, err := clientcmd.BuildConfigFromFlags("", p.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	configuration.Impersonate, configuration.QPS = as, -1
	client, err := dynamic.NewForConfig(configuration)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// resource is where objects of a kind are served.
func resource(client dynamic.Interface, object *unstructured.Unstructured) dynamic.ResourceInterface {
	kind := object.GroupVersionKind()
	at := client.Resource(schema.GroupVersionResource{Group: kind.Group, Version: kind.Version, Resource: strings.ToLower(kind.Kind) + "s"})
	if strings.HasPrefix(kind.Kind, "VirtualMachineCluster") {
		return at
	}
	return at.Namespace("default")
}

// create is a dry run.
func create(ctx context.Context, client dynamic.Interface, object *unstructured.Unstructured) error {
	_, err := resource(client, object).Create(ctx, object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}
