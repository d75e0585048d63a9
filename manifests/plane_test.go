package manifests_test

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/test/cluster"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
	flow "sigs.k8s.io/yaml"
)

// Accounts that the policies and roles in this directory are about.
const (
	webhookAccount    = "system:serviceaccount:kiln-system:kiln-webhook"
	controllerAccount = "system:serviceaccount:kiln-system:kiln-controller"
)

// plane is a real API server, with the controllers that make deletion work.
type plane struct {
	*cluster.Plane
	admin dynamic.Interface
}

// startPlane has the accounts of webhook and controller among its users.
func startPlane(t *testing.T) plane {
	t.Helper()
	const groups = "=system:serviceaccounts,system:authenticated"
	started, err := cluster.StartPlane("..", t.TempDir(), "--user", webhookAccount+groups, "--user", controllerAccount+groups)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := started.Close(); err != nil {
			t.Error(err)
		}
	})
	config, err := clientcmd.BuildConfigFromFlags("", started.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	admin, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return plane{started, admin}
}

// refusal creates an object of a kind without namespaces in a dry run, as the administrator and with kubectl's strict validation of fields. It returns what the
// API server says against the object, empty if it takes it. It is for tables: hundreds of runs of kubectl take minutes.
func (p plane) refusal(t *testing.T, object string) string {
	t.Helper()
	raw, err := flow.YAMLToJSON([]byte(object))
	if err != nil {
		t.Fatal(err)
	}
	parsed := &unstructured.Unstructured{}
	if err := parsed.UnmarshalJSON(raw); err != nil {
		t.Fatal(err)
	}
	resource, _ := meta.UnsafeGuessKindToResource(parsed.GroupVersionKind())
	_, err = p.admin.Resource(resource).Create(t.Context(), parsed,
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict})
	if err == nil {
		return ""
	}
	if apierrors.ReasonForError(err) == metav1.StatusReasonUnknown {
		t.Fatal(err) // not about the object
	}
	return err.Error()
}

// try runs the real kubectl as a user, or as the administrator when that is empty, and returns all that it printed.
func (p plane) try(user, input string, args ...string) (string, error) {
	kubeconfig := p.Kubeconfig
	if user != "" {
		kubeconfig = p.Users[user]
	}
	cmd := exec.Command(p.Kubectl(), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// kubectl is try as the administrator for what must succeed.
func (p plane) kubectl(t *testing.T, input string, args ...string) string {
	t.Helper()
	out, err := p.try("", input, args...)
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// established waits until the API server serves all custom resources.
func (p plane) established(t *testing.T) {
	t.Helper()
	if err := cluster.Established(t.Context(), p.Kubeconfig); err != nil {
		t.Fatal(err)
	}
}

// writersGroup may write guests and statuses, as far as roles go. What else keeps somebody from it, is a policy or a webhook.
const writersGroup = "writers"

// grantWriters lets the group write. The administrator's own group, system:masters, is one that policies let pass.
func (p plane) grantWriters(t *testing.T) {
	t.Helper()
	p.kubectl(t, `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: writers}
rules:
- {apiGroups: [kubevirt.io], resources: [virtualmachines, virtualmachineinstances], verbs: [get, create, patch, update]}
- {apiGroups: [kubevirt.io], resources: [virtualmachines/status, virtualmachineinstances/status], verbs: [get, patch, update]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: writers}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: writers}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: writers}]
`, "apply", "-f", "-")
	eventually(t, "the role counts", func() bool {
		_, err := p.try("", "", "auth", "can-i", "patch", "virtualmachineinstances", "--subresource=status", "--as=eve", "--as-group="+writersGroup)
		return err == nil
	})
}

// documents decodes YAML documents, one after the other.
func documents(t *testing.T, text string) []*unstructured.Unstructured {
	t.Helper()
	var all []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(object.Object) > 0 {
			all = append(all, object)
		}
	}
}
