package e2e

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const profilesCRD = "crd/hostprofiles.kilnvm.io"

// misread is a profile of the name with a mistyped selector.
func misread(name string) string {
	return "{apiVersion: kilnvm.io/v1alpha1, kind: HostProfile, metadata: {name: " + name +
		"}, spec: {vmiSelector: {matchExpressions: [{key: tier, operator: Like, values: [a]}]}, cpu: {shares: 4096}}}"
}

// TestMistypedProfileStopsNobody: a profile that was stored before its selectors were judged is left out by hosts, says so in its status, and can be
// mended. Another one is not stored any more.
func TestMistypedProfileStopsNobody(t *testing.T) {
	t.Parallel()
	a := newAlone(t)
	s := newSpaceOn(t, a.Cluster)
	a.refuses("a selector that hosts cannot read", "spec.vmiSelector.matchExpressions[0].operator", misread("typo"), "create", "-f", "-")
	a.unjudged(func() bool {
		_, _, err := a.Kubectl(t.Context(), misread("typo"), "create", "-f", "-")
		return err == nil
	})
	a.eventually("selectors are judged again", func() bool {
		_, _, err := a.Kubectl(t.Context(), misread("other"), "create", "--dry-run=server", "-f", "-")
		return err != nil
	})
	a.accepts("one that can be read", "{apiVersion: kilnvm.io/v1alpha1, kind: HostProfile, metadata: {name: right}, spec: {cpu: {shares: 2048}}}",
		"create", "-f", "-")

	accepted := func(name string) string {
		return a.space().read("hostprofile", name,
			`{range .status.conditions[?(@.type=="Accepted")]}{.status} {.reason} {.observedGeneration} {.message}{end}`).stdout
	}
	a.eventually("the status tells of the mistake", func() bool {
		text := accepted("typo")
		return strings.HasPrefix(text, "False InvalidSelector 1 ") && strings.Contains(text, "spec.vmiSelector.matchExpressions[0].operator")
	})
	a.eventually("the other one is accepted", func() bool { return strings.TrimSpace(accepted("right")) == "True Accepted 1" })

	m := s.startMachine()
	guest := strings.Replace(vm("demo", running...), "nodeSelector: {machine: none}",
		"terminationGracePeriodSeconds: 0\n      nodeSelector: {machine: "+m.name+"}", 1)
	s.create(guest)
	if !s.soon(func() bool {
		return s.read("vmi", "demo", "{.status.phase}").stdout == "Running"
	}) {
		t.Errorf("the guest does not start: %s", s.read("vmi", "demo", "{.status.conditions}").stdout)
	}
	if got := s.must(s.kiln("render", "vm/demo")); !strings.Contains(got.stdout, "<shares>2048</shares>") {
		t.Errorf("of the two profiles the one that can be read does not count:\n%s", got.stdout)
	}

	a.accepts("mending it", "", "patch", "hostprofile", "typo", "--type=merge",
		`-p={"spec":{"vmiSelector":{"matchExpressions":[{"key":"tier","operator":"In","values":["a"]}]}}}`)
	a.eventually("the status tells that it is mended", func() bool { return strings.TrimSpace(accepted("typo")) == "True Accepted 2" })
}

// unjudged takes from the definition of HostProfiles what an earlier release did not have, until something has been done.
func (a alone) unjudged(done func() bool) {
	a.Helper()
	judging := a.accepts("the definition", "", "get", profilesCRD, "-o", "json")
	var definition map[string]any
	if err := json.Unmarshal([]byte(judging), &definition); err != nil {
		a.Fatal(err)
	}
	strip(definition["spec"])
	relaxed, err := json.Marshal(definition)
	if err != nil {
		a.Fatal(err)
	}
	a.accepts("a definition that does not judge", string(relaxed), "replace", "-f", "-")
	a.eventually("what is wrong is stored", done)
	a.accepts("the definition that judges", "", "apply", "--server-side", "--force-conflicts", "-k", filepath.Join(a.Root, "manifests/crds/hostprofiles"))
}

// strip removes the rules of a schema: CEL, and the words that operators have.
func strip(node any) {
	switch node := node.(type) {
	case map[string]any:
		delete(node, "x-kubernetes-validations")
		if words, is := node["enum"].([]any); is && slices.Contains(words, any("DoesNotExist")) {
			delete(node, "enum")
		}
		for _, child := range node {
			strip(child)
		}
	case []any:
		for _, child := range node {
			strip(child)
		}
	}
}
