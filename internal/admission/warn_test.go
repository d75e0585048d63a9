package admission

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/enforcement"
	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/internal/revision"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/policy"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/tidwall/gjson"
	admissionv1 "k8s.io/api/admission/v1"
	"sigs.k8s.io/yaml"
)

// besideKubeVirt makes KubeVirt run the guests of a cluster, and sets the flag --enforcement.
func (c *cluster) besideKubeVirt(enforced string) *cluster {
	c.Enforcement = enforced
	c.Reviewer.Configuration = func() config.Cluster {
		now := installed()
		now.Limits.KubeVirtGuests = true
		return now
	}
	return c
}

// labelled is the namespace of the tests with a value of the label; without the label if it is empty.
func labelled(label string) string {
	if label == "" {
		return "{apiVersion: v1, kind: Namespace, metadata: {name: team}}"
	}
	return "{apiVersion: v1, kind: Namespace, metadata: {name: team, labels: {kilnvm.io/admission: " + label + "}}}"
}

// TestEnforcement: flag and label decide together, and never without KubeVirt.
func TestEnforcement(t *testing.T) {
	t.Parallel()
	wrong := create(t, strings.Replace(sparse, "Always", "Sometimes", 1))
	cluster := create(t, strings.Replace(catalog, "guest: 2", "guest: 0", 1))
	cluster.Namespace = ""
	for _, test := range []struct {
		flag, label string
		warns       bool
		says        string
	}{
		{enforcement.Enforce, "", false, ""},
		{enforcement.Warn, "", true, ""},
		{enforcement.Enforce, "enabled", false, ""},
		{enforcement.Warn, "enabled", false, ""},
		{enforcement.Enforce, "warn", true, ""},
		{enforcement.Warn, "warn", true, ""},
		{enforcement.Enforce, "disabled", true, ""}, // the API server asks, because it has read another label
		{enforcement.Warn, "disabled", true, ""},
		{enforcement.Enforce, "wran", false, "label kilnvm.io/admission of namespace 'team' is 'wran' and has no effect"},
		{enforcement.Warn, "wran", true, "label kilnvm.io/admission of namespace 'team' is 'wran' and has no effect"},
	} {
		c := newCluster(t, catalog, labelled(test.label))
		c.Enforcement = test.flag
		for path, request := range map[string]*admissionv1.AdmissionRequest{ValidateVM: wrong, ValidateInstancetype: cluster} {
			if response := ask(t, c.Hooks()[path], request); response.Allowed || len(response.Warnings) > 0 {
				t.Errorf("%s, '%s', without KubeVirt: %s is admitted: %q", test.flag, test.label, path, response.Warnings)
			}
		}
		c.besideKubeVirt(test.flag)
		response := ask(t, c.Hooks()[ValidateVM], wrong)
		if text := strings.Join(response.Warnings, "\n"); response.Allowed != test.warns || !strings.Contains(text, test.says) ||
			strings.Contains(text, "no effect") != (test.says != "") || strings.Contains(text, wouldRefuse) != test.warns {
			t.Errorf("%s, '%s': %+v", test.flag, test.label, response)
		}
		if response := ask(t, c.Hooks()[ValidateInstancetype], cluster); response.Allowed != (test.flag == enforcement.Warn) {
			t.Errorf("%s, '%s': an object of the cluster: %+v", test.flag, test.label, response)
		}
	}
}

// TestNothingOfKubeVirtsIsRefused: each kind of KubeVirt's is admitted with warnings, and each kind of Kiln's own is refused as ever.
func TestNothingOfKubeVirtsIsRefused(t *testing.T) {
	t.Parallel()
	const vmi = "apiVersion: kubevirt.io/v1\nkind: VirtualMachineInstance\nmetadata: {name: a, namespace: team}\n" +
		"spec: {architecture: amd64, domain: {ioThreadsPolicy: never, devices: {}}}\n"
	for path, test := range map[string]struct {
		text  string
		warns bool
	}{
		ValidateVM:           {strings.Replace(sparse, "Always", "Sometimes", 1), true},
		ValidateVMI:          {vmi, true},
		MutateVMI:            {strings.Replace(vmi, "devices: {}", "devices: {}, memory: {guest: 128MB}", 1), true},
		ValidatePreset:       {strings.Replace(ofKind("VirtualMachineInstancePreset", "a", 1), "spec: ", "spec: 1 # ", 1), true},
		ValidateInstancetype: {strings.Replace(catalog, "guest: 2", "guest: 0", 1), true},
		ValidatePreference:   {"apiVersion: instancetype.kubevirt.io/v1beta1\nkind: VirtualMachinePreference\nmetadata: {name: a, namespace: team}\nspec: 1\n", true},
		ValidateProfile:      {"apiVersion: kilnvm.io/v1alpha1\nkind: GuestProfile\nmetadata: {name: a, namespace: team}\nspec: 1\n", false},
		ValidatePolicy:       {strings.Replace(onlyOneSocket, "guest.spec.domain", "guest.spec", 1), false},
		ValidateHardware:     {"apiVersion: kilnvm.io/v1alpha1\nkind: GuestHardware\nmetadata: {name: a, namespace: team}\nspec: 1\n", false},
	} {
		c := newCluster(t, labelled("warn")).besideKubeVirt(enforcement.Enforce)
		response := ask(t, c.Hooks()[path], create(t, test.text))
		if response.Allowed != test.warns || test.warns && (len(response.Warnings) == 0 || !strings.HasPrefix(response.Warnings[0], wouldRefuse)) {
			t.Errorf("%s: %+v", path, response)
		}
		if enforced := ask(t, newCluster(t).besideKubeVirt(enforcement.Enforce).Hooks()[path], create(t, test.text)); enforced.Allowed {
			t.Errorf("%s: nothing is wrong with it", path)
		}
	}
}

// TestWarnings: three warnings at most, of which the last counts the rest, within the length that API servers pass on; the rules in an audit annotation, and
// counted.
func TestWarnings(t *testing.T) {
	text := "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: web, namespace: team}\nspec:\n  runStrategy: Always\n  template:\n    spec:\n" +
		"      domain:\n        devices:\n          disks:\n"
	for i := range 5 {
		text += fmt.Sprintf("          - {name: d%d, disk: {bus: %s}}\n", i, strings.Repeat("ü", 300))
	}
	c := newCluster(t, labelled("warn")).besideKubeVirt(enforcement.Enforce)
	before, refused := testutil.ToFloat64(wouldReject.WithLabelValues("disks/bus")), testutil.ToFloat64(rejections.WithLabelValues("disks/bus"))
	seen := observations(t, ValidateVM, warned)
	response := ask(t, c.Hooks()[ValidateVM], create(t, text))
	if !response.Allowed || len(response.Warnings) != 3 {
		t.Fatalf("%d warnings: %+v", len(response.Warnings), response)
	}
	for i, warning := range response.Warnings {
		if !strings.HasPrefix(warning, wouldRefuse) || utf8.RuneCountInString(warning) > mostOfWarning || strings.Contains(warning, " more: ") != (i == 2) {
			t.Errorf("warning %d: %s", i, warning)
		}
	}
	if rules := strings.Split(response.AuditAnnotations[auditRefusal], ","); !slices.Contains(rules, "disks/bus") || !slices.IsSorted(rules) {
		t.Errorf("audit annotations %v", response.AuditAnnotations)
	}
	if now := testutil.ToFloat64(wouldReject.WithLabelValues("disks/bus")); now != before+1 {
		t.Errorf("counted %v times", now-before)
	}
	if now := testutil.ToFloat64(rejections.WithLabelValues("disks/bus")); now != refused {
		t.Errorf("counted as a refusal")
	}
	if now := observations(t, ValidateVM, warned); now != seen+1 {
		t.Errorf("measured %d times as warned", now-seen)
	}
}

// TestPoliciesWarn: a GuestPolicy that denies warns, too.
func TestPoliciesWarn(t *testing.T) {
	t.Parallel()
	written := &v1alpha1.GuestPolicy{}
	if err := yaml.UnmarshalStrict([]byte(strings.Replace(onlyOneSocket, "tier: gold", "kilnvm.io/admission: warn", 1)), written); err != nil {
		t.Fatal(err)
	}
	compiled, mistakes := policy.Compile(written)
	if len(mistakes) > 0 {
		t.Fatal(mistakes)
	}
	c := newCluster(t, catalog, labelled("warn")).besideKubeVirt(enforcement.Enforce)
	c.Reviewer.Policies = func() ([]*policy.Policy, error) { return []*policy.Policy{compiled}, nil }
	request := create(t, sparse)
	request.UserInfo.Username = "ann"
	response := ask(t, c.Hooks()[ValidateVM], request)
	if !response.Allowed || len(response.Warnings) != 1 || !strings.Contains(response.Warnings[0], "GuestPolicy 'one-socket': one socket") ||
		response.AuditAnnotations[auditRefusal] != policy.RuleDenied || !strings.Contains(response.AuditAnnotations["validation_failure"], "one-socket") {
		t.Errorf("%+v", response)
	}
}

// TestWarnedVMsAreCompleted: a VM with a mistake gets its pins and its identity, and keeps them, so that its guest does not move. The validating webhook warns.
func TestWarnedVMsAreCompleted(t *testing.T) {
	t.Parallel()
	c := newCluster(t, catalog, labelled("warn")).besideKubeVirt(enforcement.Enforce)
	wrong := create(t, strings.Replace(sparse, "Always", "Sometimes", 1))
	response := ask(t, c.Hooks()[MutateVM], wrong)
	stored := patched(t, wrong, response)
	pins := gjson.Get(stored, `metadata.annotations.kilnvm\.io/pins`).String()
	if !strings.Contains(pins, "small") || gjson.Get(stored, `metadata.annotations.kilnvm\.io/identity`).String() != "review-1" || len(c.written) == 0 {
		t.Errorf("stored %s, %d revisions written", stored, len(c.written))
	}
	if len(response.Warnings) > 0 || len(response.AuditAnnotations) > 0 {
		t.Errorf("it warns of what the validating webhook finds again: %+v", response)
	}
	kept := update(t, stored, strings.Replace(sparse, "Always", "Never", 1)) // as 'kubectl replace' does
	if again := patched(t, kept, ask(t, c.Hooks()[MutateVM], kept)); gjson.Get(again, `metadata.annotations.kilnvm\.io/pins`).String() != pins {
		t.Errorf("an update loses the pins: %s", again)
	}
}

// TestForgedAnnotationsAreNotStored: what only admission writes is as it was, also if a VM or VMI cannot be completed.
func TestForgedAnnotationsAreNotStored(t *testing.T) {
	t.Parallel()
	const forged = `kilnvm.io/architecture: vax, kilnvm.io/pins: '{"presets":["x"]}', kilnvm.io/identity: theirs, a: b`
	new := strings.Replace(sparse, "namespace: team", "namespace: team, annotations: {kilnvm.io/inference: '[]', "+forged+"}", 1)
	stored := strings.Replace(sparse, "namespace: team",
		`namespace: team, annotations: {kilnvm.io/identity: own, kilnvm.io/pins: '{"instancetype":"r","configuration":"c"}'}`, 1)
	other := strings.Replace(new, "{name: small}", "{name: large}", 1)
	ofVMI := theirs(t, forged+", kilnvm.io/frontend: '{}', kilnvm.io/generation: x")
	for _, test := range []struct {
		why, path string
		request   *admissionv1.AdmissionRequest
		want      map[string]string
	}{
		{"a new VM", MutateVM, create(t, new), map[string]string{"a": "b", "kilnvm.io/identity": "theirs"}},
		{"an update", MutateVM, update(t, stored, new),
			map[string]string{"a": "b", "kilnvm.io/identity": "own", "kilnvm.io/pins": `{"instancetype":"r","configuration":"c"}`}},
		{"an update to another instancetype", MutateVM, update(t, stored, other),
			map[string]string{"a": "b", "kilnvm.io/identity": "own", "kilnvm.io/pins": `{"configuration":"c"}`}},
		{"an update of a VM without any", MutateVM, update(t, sparse, new), map[string]string{"a": "b"}},
		{"a VMI of KubeVirt", MutateVMI, ofVMI, map[string]string{"a": "b"}},
	} {
		for how, handle := range map[string]handler{
			"a fault": func(context.Context, *admissionv1.AdmissionRequest) (answer, error) {
				return answer{}, errors.New("no connection")
			},
			"outdated": func(context.Context, *admissionv1.AdmissionRequest) (answer, error) {
				return answer{}, resolve.NewOutdated("changed")
			},
		} {
			hook := newCluster(t, labelled("warn")).besideKubeVirt(enforcement.Enforce).Hooks()[test.path]
			hook.handle = handle
			response := ask(t, hook, test.request)
			got := map[string]string{}
			if err := json.Unmarshal([]byte(gjson.Get(patched(t, test.request, response), "metadata.annotations").Raw), &got); err != nil {
				t.Fatal(err)
			}
			if fmt.Sprint(got) != fmt.Sprint(test.want) || len(response.Warnings) != 1 || !strings.HasPrefix(response.Warnings[0], notJudged) {
				t.Errorf("%s, %s: %v, warns %q, want %v", test.why, how, got, response.Warnings, test.want)
			}
		}
	}
}

// TestFaultsAdmit: neither a panic, a full process, lists that are too long, nor a failed write refuses a VM, and no revision is named that was not written.
func TestFaultsAdmit(t *testing.T) {
	t.Parallel()
	beside := func() *cluster { return newCluster(t, catalog, labelled("warn")).besideKubeVirt(enforcement.Enforce) }
	full, broken, huge, unwritten := beside().Hooks()[ValidateVM], beside().Hooks()[MutateVM], beside().Hooks()[ValidateVM], beside()
	full.capacity = newCapacity()
	if !full.capacity.TryAcquire(maxInFlight) {
		t.Fatal("no capacity")
	}
	broken.handle = func(context.Context, *admissionv1.AdmissionRequest) (answer, error) { panic("bug") }
	unwritten.Write = func(context.Context, ...revision.Draft) error { return errors.New("no space") }
	request := create(t, sparse)
	body, err := json.Marshal(admissionv1.AdmissionReview{Request: request})
	if err != nil {
		t.Fatal(err)
	}
	recorder := httptest.NewRecorder()
	full.ServeHTTP(recorder, httptest.NewRequest(http.MethodPost, "/?timeout=10ms", strings.NewReader(string(body))))
	var answered admissionv1.AdmissionReview
	if err := json.Unmarshal(recorder.Body.Bytes(), &answered); err != nil {
		t.Fatal(err)
	}
	many := strings.Replace(sparse, "devices: {}", "devices: {disks: ["+strings.Repeat("{name: a},", 5000)+"]}", 1)
	for why, response := range map[string]*admissionv1.AdmissionResponse{
		"a full process": answered.Response, "a panic": ask(t, broken, request), "lists that are too long": ask(t, huge, create(t, many)),
		"revisions that cannot be written": ask(t, unwritten.Hooks()[MutateVM], request),
	} {
		if !response.Allowed || response.Result != nil || len(response.Warnings) != 1 || response.Patch != nil || response.AuditAnnotations[auditRefusal] == "" {
			t.Errorf("%s: %+v", why, response)
		}
	}
}
