package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/workbench/policytest"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// warnings are lines that kubectl prints before the answer, such as the one about a deprecated instancetype.
var warnings = regexp.MustCompile(`(?m)^Warning: .*\n`)

// exemplified is the cluster for one example policy: what its test has in its cluster, in namespaces of this run.
type exemplified struct {
	space
	folder string
	// namespaces are the example's namespaces by their names in its files.
	namespaces map[string]string
	labels     map[string]map[string]string
}

// TestPolicyExamples: each example policy in a cluster admits its allowed VM, and refuses the other one with exactly its message and its name. Every case of
// its test that creates an object has the answer that 'policy test' has.
//
// It does not run at the same time as other tests: the policies judge VMs of all namespaces.
func TestPolicyExamples(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(shared.Root, "examples", "policies", "*", "policy.yaml"))
	if err != nil || len(files) != 9 {
		t.Fatalf("%d examples: %v", len(files), err)
	}
	for _, file := range files {
		folder := filepath.Dir(file)
		t.Run(filepath.Base(folder), func(t *testing.T) {
			e := exemplified{newSpaceOn(t, shared), folder, map[string]string{}, map[string]map[string]string{}}
			e.readCluster()
			e.answers()
		})
	}
}

// answers applies the policy, and compares each case.
func (e *exemplified) answers() {
	e.Helper()
	name := filepath.Base(e.folder)
	var report policytest.Report
	out, stderr, err := e.on.Kiln(e.Context(), "", "policy", "test", e.folder, "-o", "json")
	if err == nil {
		err = json.Unmarshal([]byte(out), &report)
	}
	if err != nil {
		e.Fatalf("%v\n%s", err, stderr)
	}
	var cases v1alpha1.GuestPolicyTest
	e.read("policy_test.yaml", &cases)
	e.must(e.kubectl(e.inNamespaces(e.text("policy.yaml")), "apply", "-f", "-"))
	e.Cleanup(func() { e.kubectlAfter("delete", "guestpolicy", name) })
	refused := report.Cases[e.caseOf(cases, "refused.yaml", v1alpha1.PolicyDenies)]
	wanted := e.refusal(refused)
	e.awaitRefusal(refused, wanted)
	compared := 0
	for i, c := range cases.Cases {
		if c.OldObject != nil {
			continue
		}
		compared++
		got := e.create(e.object(c), c.Namespace)
		if allowed := c.Expect == v1alpha1.PolicyAllows; allowed != (got.err == nil) {
			e.Errorf("case '%s': want %s, got %v\n%s", c.Name, c.Expect, got.err, got.stderr)
			continue
		}
		for _, v := range report.Cases[i].Seen.Violations {
			if text := fmt.Sprintf("%s: ", v.Field); !strings.Contains(got.stderr, text) || !strings.Contains(got.stderr, e.says(name, v)) {
				e.Errorf("case '%s': the cluster does not say '%s%s':\n%s", c.Name, text, e.says(name, v), got.stderr)
			}
		}
	}
	if compared < 3 {
		e.Errorf("%d cases compared", compared)
	}
}

// says is how a cluster names a violation.
func (e *exemplified) says(policy string, v policytest.Violation) string {
	with := ""
	if kind, of, found := strings.Cut(v.Param, " "); found {
		namespace, name, _ := strings.Cut(of, "/")
		with = fmt.Sprintf(" with %s %s/%s", kind, e.namespaces[namespace], name)
	}
	return fmt.Sprintf("GuestPolicy '%s'%s: %s", policy, with, v.Message)
}

// caseOf returns the index of the first case with a file and an answer.
func (e *exemplified) caseOf(cases v1alpha1.GuestPolicyTest, file string, answer v1alpha1.GuestPolicyAnswer) int {
	e.Helper()
	for i, c := range cases.Cases {
		if string(c.Object) == fmt.Sprintf("%q", file) && c.Expect == answer && c.OldObject == nil {
			return i
		}
	}
	e.Fatalf("no case has %s and expects '%s'", file, answer)
	return 0
}

// refusal returns the causes in the answer of kubectl to a VM that violates the policy alone, one on each line.
func (e *exemplified) refusal(c policytest.Case) string {
	var causes []string
	for _, v := range c.Seen.Violations {
		causes = append(causes, fmt.Sprintf("%s: Forbidden: %s", v.Field, e.says(c.Policy, v)))
	}
	return strings.Join(causes, "\n")
}

// causesOfPolicy returns the causes in an answer of kubectl, one on each line. It leaves out causes of the runtime: the webhook of these tests is one of bare
// machines, which have no devices for guests.
func causesOfPolicy(stderr, vm string) string {
	var causes []string
	for line := range strings.Lines(strings.TrimPrefix(warnings.ReplaceAllString(stderr, ""), fmt.Sprintf("The VirtualMachine %q is invalid: ", vm))) {
		cause := strings.TrimPrefix(strings.TrimSuffix(line, "\n"), "* ")
		if cause != "" && !strings.Contains(cause, " bare machine") {
			causes = append(causes, cause)
		}
	}
	return strings.Join(causes, "\n")
}

// awaitRefusal waits until the webhooks, which read policies by watches, refuse the VM, as often in a row as leaves no replica out.
func (e *exemplified) awaitRefusal(c policytest.Case, wanted string) {
	e.Helper()
	var object unstructured.Unstructured
	e.read("refused.yaml", &object.Object)
	var cases v1alpha1.GuestPolicyTest
	e.read("policy_test.yaml", &cases)
	namespace := cases.Cases[e.caseOf(cases, "refused.yaml", v1alpha1.PolicyDenies)].Namespace
	row, last := 0, ""
	if !e.soon(func() bool {
		got := e.create(object, namespace)
		last = got.stderr
		if row++; got.err == nil || causesOfPolicy(last, object.GetName()) != wanted {
			row = 0
		}
		return row == 4
	}) {
		e.Fatalf("the VM is not refused with\n%s\nthe cluster says\n%s", wanted, last)
	}
}

// create asks the cluster whether it would create an object.
func (e *exemplified) create(object unstructured.Unstructured, namespace string) answer {
	e.Helper()
	return e.kubectl(mustJSON(e.T, &object), "create", "--dry-run=server", "-f", "-", "-n", e.namespace(namespace))
}

// namespace returns the namespace of this run for one of the example.
func (e *exemplified) namespace(name string) string {
	e.Helper()
	if name == "" {
		return e.name
	}
	if e.namespaces[name] == "" {
		own := e.name + "-" + name
		e.namespaces[name] = own
		manifest := unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace"}}
		manifest.SetName(own)
		manifest.SetLabels(e.labels[name])
		e.must(e.kubectl(mustJSON(e.T, &manifest), "create", "-f", "-"))
		e.Cleanup(func() { e.kubectlAfter("delete", "namespace", own, "--wait=false") })
	}
	return e.namespaces[name]
}

// object returns the object of a case.
func (e *exemplified) object(c v1alpha1.GuestPolicyCase) (object unstructured.Unstructured) {
	e.Helper()
	var file string
	if json.Unmarshal(c.Object, &file) == nil {
		e.read(file, &object.Object)
	} else if err := json.Unmarshal(c.Object, &object.Object); err != nil {
		e.Fatal(err)
	}
	return object
}

// readCluster creates what the example has in its cluster. A KubeVirt object is left out: the webhooks of these tests read their configuration from a file.
func (e *exemplified) readCluster() {
	e.Helper()
	var objects []unstructured.Unstructured
	texts := strings.Split(e.text("cluster.yaml"), "\n---\n")
	if _, err := os.Stat(filepath.Join(e.folder, "rights.yaml")); err == nil {
		texts = append(texts, strings.Split(e.text("rights.yaml"), "\n---\n")...)
	}
	for _, text := range texts {
		var object unstructured.Unstructured
		if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
			e.Fatal(err)
		}
		if object.GetKind() == "Namespace" {
			e.labels[object.GetName()] = object.GetLabels()
		} else if object.GetKind() != "KubeVirt" {
			objects = append(objects, object)
		}
	}
	for _, object := range objects {
		args := []string{"apply", "--server-side", "-f", "-"}
		if namespace := object.GetNamespace(); namespace != "" {
			object.SetNamespace("")
			args = append(args, "-n", e.namespace(namespace))
		} else {
			e.Cleanup(func() { e.kubectlAfter("delete", object.GetKind(), object.GetName()) })
		}
		e.must(e.kubectl(mustJSON(e.T, &object), args...))
	}
}

// inNamespaces returns a text of the example that names the namespaces of this run.
func (e *exemplified) inNamespaces(text string) string {
	for name, own := range e.namespaces {
		text = strings.ReplaceAll(text, "namespace: "+name+"}", "namespace: "+own+"}")
		text = strings.ReplaceAll(text, "namespace: "+name+",", "namespace: "+own+",")
	}
	return text
}

// text returns a file of the example, and read decodes one.
func (e *exemplified) text(name string) string {
	e.Helper()
	raw, err := os.ReadFile(filepath.Join(e.folder, name))
	if err != nil {
		e.Fatal(err)
	}
	return string(raw)
}

func (e *exemplified) read(name string, into any) {
	e.Helper()
	if err := yaml.Unmarshal([]byte(e.text(name)), into); err != nil {
		e.Fatal(err)
	}
}
