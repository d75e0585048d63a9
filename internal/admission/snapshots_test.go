package admission

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/tidwall/gjson"
	authenticationv1 "k8s.io/api/authentication/v1"
)

const (
	restoring = `
apiVersion: snapshot.kubevirt.io/v1beta1
kind: VirtualMachineRestore
metadata: {name: back, namespace: team}
spec: {target: {apiGroup: kubevirt.io, kind: VirtualMachine, name: web}, virtualMachineSnapshotName: s}
`
	cloning = `
apiVersion: clone.kubevirt.io/v1beta1
kind: VirtualMachineClone
metadata: {name: copy, namespace: team}
spec: {source: {apiGroup: kubevirt.io, kind: VirtualMachine, name: web}}
`
)

// TestAsker: admission notes the user of the request, whatever the object says. Only Kiln's controller may name another account.
func TestAsker(t *testing.T) {
	alice := authenticationv1.UserInfo{Username: "alice", Groups: []string{"team"}, Extra: map[string]authenticationv1.ExtraValue{"scopes": {"a"}}}
	ours := authenticationv1.UserInfo{Username: "system:serviceaccount:machines:kiln-controller"}
	forged := func(text string) string {
		return strings.Replace(text, "metadata: {", `metadata: {annotations: {kilnvm.io/asker: '{"username":"admin"}'}, `, 1)
	}
	const path = `metadata.annotations.kilnvm\.io/asker`
	hooks := newCluster(t).Hooks()
	for _, test := range []struct{ why, text, mutate, validate string }{
		{"a restore", restoring, MutateRestore, ValidateRestore}, {"a restore that names somebody", forged(restoring), MutateRestore, ValidateRestore},
		{"a clone", cloning, MutateClone, ValidateClone}, {"a clone that names somebody", forged(cloning), MutateClone, ValidateClone},
	} {
		request := create(t, test.text)
		request.UserInfo = alice
		after := patched(t, request, ask(t, hooks[test.mutate], request))
		var noted authenticationv1.UserInfo
		if err := json.Unmarshal([]byte(gjson.Get(after, path).Str), &noted); err != nil || noted.Username != "alice" || len(noted.Extra) != 1 {
			t.Errorf("%s: %v, %s", test.why, err, after)
		}
		judge := create(t, after)
		judge.UserInfo = alice
		if response := ask(t, hooks[test.validate], judge); !response.Allowed {
			t.Errorf("%s: %v", test.why, response.Result)
		}
		judge.UserInfo.Groups = nil
		if response := ask(t, hooks[test.validate], judge); response.Allowed {
			t.Errorf("%s: another account may send it", test.why)
		}
		request.UserInfo = ours
		if after := patched(t, request, ask(t, hooks[test.mutate], request)); after != string(request.Object.Raw) || !ask(t, hooks[test.validate], request).Allowed {
			t.Errorf("%s: what the controller names is changed: %s", test.why, after)
		}
		for who, change := range map[string]bool{"alice": false, ours.Username: true} {
			edited := update(t, after, test.text)
			edited.UserInfo.Username = who
			if response := ask(t, hooks[test.validate], edited); response.Allowed != change {
				t.Errorf("%s: '%s' changes the asker: %t", test.why, who, response.Allowed)
			}
		}
	}
	unnoted := create(t, restoring)
	unnoted.UserInfo = alice
	if response := ask(t, hooks[ValidateRestore], unnoted); response.Allowed || !strings.Contains(response.Result.Message, "written only by admission") {
		t.Errorf("without the mutating webhook: %v", response.Result)
	}
}

// TestTargetOfAClone: a clone without a target gets one, as in KubeVirt.
func TestTargetOfAClone(t *testing.T) {
	hooks := newCluster(t).Hooks()
	request := create(t, cloning)
	after := patched(t, request, ask(t, hooks[MutateClone], request))
	if got := gjson.Get(after, "spec.target").Raw; got != `{"apiGroup":"kubevirt.io","kind":"VirtualMachine","name":"clone-web-revie"}` {
		t.Error(got)
	}
}

// TestFormsOfSnapshots: every mistake is reported with its path.
func TestFormsOfSnapshots(t *testing.T) {
	hooks := newCluster(t).Hooks()
	for _, test := range []struct {
		why, hook, spec string
		want            []string
	}{
		{"a snapshot", ValidateSnapshot, "{source: {apiGroup: kubevirt.io, kind: VirtualMachine, name: web}, failureDeadline: 1m, deletionPolicy: Retain}", nil},
		{"a snapshot of nothing", ValidateSnapshot, "{source: {kind: VirtualMachine, name: web}}", []string{"spec.source.apiGroup"}},
		{"a snapshot of a guest", ValidateSnapshot, "{source: {apiGroup: other, kind: VirtualMachineInstance, name: -}, failureDeadline: 48h, deletionPolicy: Keep}",
			[]string{"spec.source.kind", "spec.source.apiGroup", "spec.source.name", "spec.deletionPolicy", "spec.failureDeadline"}},
		{"a restore", ValidateRestore, "{target: {apiGroup: kubevirt.io, kind: VirtualMachine, name: web}, virtualMachineSnapshotName: s, " +
			"targetReadinessPolicy: StopTarget, volumeRestorePolicy: InPlace, volumeOwnershipPolicy: None, " +
			"volumeRestoreOverrides: [{volumeName: a, restoreName: b}]}", nil},
		{"a restore of all mistakes", ValidateRestore, "{target: {apiGroup: a, kind: VirtualMachine, name: web}, virtualMachineSnapshotName: '', " +
			"targetReadinessPolicy: Now, volumeRestorePolicy: Any, volumeOwnershipPolicy: All, volumeRestoreOverrides: [{restoreName: A}, {volumeName: b}], " +
			"patches: ['{}']}",
			[]string{"spec.target.apiGroup", "spec.virtualMachineSnapshotName", "spec.targetReadinessPolicy", "spec.volumeRestorePolicy",
				"spec.volumeOwnershipPolicy", "spec.volumeRestoreOverrides[0].volumeName", "spec.volumeRestoreOverrides[0].restoreName",
				"spec.volumeRestoreOverrides[1]", "spec.patches[0]"}},
		{"a clone of a snapshot", ValidateClone, "{source: {apiGroup: snapshot.kubevirt.io, kind: VirtualMachineSnapshot, name: s}, " +
			"newMacAddresses: {a: '02:00:00:00:00:01', b: ''}, volumeNamePolicy: PrefixTargetName}", nil},
		{"a clone of nothing", ValidateClone, "{source: null}", []string{"spec.source"}},
		{"a clone of all mistakes", ValidateClone, "{source: {apiGroup: kubevirt.io, kind: VirtualMachine, name: web}, " +
			"target: {apiGroup: kubevirt.io, kind: VirtualMachine, name: web}, labelFilters: [''], annotationFilters: ['!'], " +
			"template: {labelFilters: ['a!'], annotationFilters: ['a*b']}, newMacAddresses: {a: '01:00:00:00:00:01'}, volumeNamePolicy: InPlace, patches: ['[]']}",
			[]string{"spec.target.name", "spec.labelFilters[0]", "spec.annotationFilters[0]", "spec.template.labelFilters[0]",
				"spec.template.annotationFilters[0]", "spec.newMacAddresses[a]", "spec.volumeNamePolicy", "spec.patches[0]"}},
	} {
		request := create(t, "metadata: {name: a, namespace: team}\nspec: "+test.spec)
		request.UserInfo.Username = "system:serviceaccount:machines:kiln-controller" // whose asker is not judged
		response := ask(t, hooks[test.hook], request)
		var paths []string
		if response.Result != nil && response.Result.Details != nil {
			for _, cause := range response.Result.Details.Causes {
				paths = append(paths, cause.Field)
			}
		}
		if response.Allowed != (test.want == nil) || strings.Join(paths, " ") != strings.Join(test.want, " ") {
			t.Errorf("%s: allowed %t, %v\nwant %v", test.why, response.Allowed, paths, test.want)
		}
	}
}

// TestReferencesOfSnapshots: the answer names what was probably meant to those who may list it, and nothing to Kiln's controller.
func TestReferencesOfSnapshots(t *testing.T) {
	const known = "{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: web, namespace: team}}"
	const taken = "{apiVersion: snapshot.kubevirt.io/v1beta1, kind: VirtualMachineSnapshot, metadata: {name: before, namespace: team}}"
	c := newCluster(t, known, taken)
	c.MayRead = func(_ context.Context, user authenticationv1.UserInfo, source resolve.Source) (bool, error) {
		return user.Username == "ann" && source.Verb() == "list" && source.Namespace == "team", nil
	}
	for _, test := range []struct{ hook, kind, spec, want string }{
		{ValidateSnapshot, "apiVersion: snapshot.kubevirt.io/v1beta1\nkind: VirtualMachineSnapshot\n",
			"{source: {apiGroup: kubevirt.io, kind: VirtualMachine, name: wep}}", "; did you mean 'web'?"},
		{ValidateRestore, "apiVersion: snapshot.kubevirt.io/v1beta1\nkind: VirtualMachineRestore\n",
			"{target: {apiGroup: kubevirt.io, kind: VirtualMachine, name: web}, virtualMachineSnapshotName: befor}",
			"; did you mean 'before'?"},
		{ValidateClone, "apiVersion: clone.kubevirt.io/v1beta1\nkind: VirtualMachineClone\n",
			"{source: {apiGroup: kubevirt.io, kind: VirtualMachine, name: before}}", "; did you mean kind 'VirtualMachineSnapshot'?"},
	} {
		for who, expected := range map[string]bool{"ann": true, "bob": false, "system:serviceaccount:machines:kiln-controller": false} {
			request := create(t, test.kind+"metadata: {name: a}\nspec: "+test.spec)
			request.Namespace, request.UserInfo.Username = "team", who
			if test.hook != ValidateSnapshot && who != "system:serviceaccount:machines:kiln-controller" {
				request = create(t, patched(t, request, ask(t, c.Hooks()[strings.Replace(test.hook, "validate", "mutate", 1)], request)))
				request.Namespace, request.UserInfo.Username = "team", who
			}
			response := ask(t, c.Hooks()[test.hook], request)
			if !response.Allowed || strings.Contains(strings.Join(response.Warnings, "\n"), test.want) != expected || !expected && len(response.Warnings) > 0 {
				t.Errorf("%s of %s: %+v, want '%s': %t", test.hook, who, response, test.want, expected)
			}
		}
	}
}
