package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func TestUnused(t *testing.T) {
	c := &Cluster{Options: Options{Namespace: "home"}}
	for _, text := range []string{
		`{kind: ClusterRole, metadata: {name: a}, rules: [{apiGroups: [g, ""], resources: [things], verbs: [get, list]}]}`,
		`{kind: Role, metadata: {name: a, namespace: home}, rules: [{apiGroups: [g], resources: [things/status], resourceNames: [x], verbs: [update]}]}`,
		`{kind: ClusterRoleBinding, metadata: {name: a}, roleRef: {kind: ClusterRole, name: a}, subjects: [{kind: ServiceAccount, name: one, namespace: home}]}`,
		`{kind: RoleBinding, metadata: {name: a, namespace: home}, roleRef: {kind: Role, name: a}, subjects: [{kind: ServiceAccount, name: two, namespace: home}]}`,
		`{kind: RoleBinding, metadata: {name: b, namespace: home}, roleRef: {kind: Role, name: a}, subjects: [{kind: Group, name: people}]}`,
	} {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
			t.Fatal(err)
		}
		c.manifests = append(c.manifests, object)
	}
	rights, err := c.Rights()
	if err != nil {
		t.Fatal(err)
	}
	const event = `{"verb": "%s", "user": {"username": "system:serviceaccount:home:%s"}, "annotations": {"authorization.k8s.io/decision": "%s"},
		"objectRef": {"apiGroup": "g", "resource": "things", "subresource": "%s", "namespace": "%s", "name": "%s"}}`
	get, list := Right{"one", "get", "", "things", "", ""}, Right{"one", "list", "", "things", "", ""}
	getG, listG := Right{"one", "get", "g", "things", "", ""}, Right{"one", "list", "g", "things", "", ""}
	update := Right{"two", "update", "g", "things/status", "home", "x"}
	for _, test := range []struct {
		why     string
		request []any
		want    []Right
	}{
		{"what was done needed its right, and no other group's", []any{"get", "one", "allow", "", "anywhere", "y"}, []Right{listG, get, list, update}},
		{"what was refused needed none", []any{"get", "one", "forbid", "", "anywhere", "y"}, []Right{getG, listG, get, list, update}},
		{"nor does what another account did", []any{"get", "two", "allow", "", "anywhere", "y"}, []Right{getG, listG, get, list, update}},
		{"a role's right counts in its namespace, by its name", []any{"update", "two", "allow", "status", "home", "x"}, []Right{getG, listG, get, list}},
		{"not in another", []any{"update", "two", "allow", "status", "anywhere", "x"}, []Right{getG, listG, get, list, update}},
		{"not on another object", []any{"update", "two", "allow", "status", "home", "y"}, []Right{getG, listG, get, list, update}},
	} {
		c.audit = logged(t, event, test.request)
		requests, err := c.Requests()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.want, Unused(rights, requests)); diff != "" {
			t.Errorf("%s: -want +got\n%s", test.why, diff)
		}
	}
}

// logged writes an audit log of one event, and the beginning of another one.
func logged(t *testing.T, event string, values []any) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "audit.log")
	line := strings.ReplaceAll(fmt.Sprintf(event, values...), "\n", "")
	if err := os.WriteFile(file, []byte(line+"\n"+line[:20]), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
