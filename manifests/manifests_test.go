// Package manifests_test applies what this directory ships to a real API server.
package manifests_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestOnServer shares one API server, which takes seconds to start; the parts run in this order.
func TestOnServer(t *testing.T) {
	p := startPlane(t)
	for _, base := range []string{
		"crds", "rbac", "webhook", "controller", "webhook/configurations", "policies/kept", "catalog", "overlays/cert-manager", "overlays/fail-open",
		"overlays/apiserver",
	} {
		if len(documents(t, p.kubectl(t, "", "kustomize", base))) == 0 {
			t.Errorf("'%s' builds nothing", base)
		}
	}
	// The namespace comes with the rest; kubectl sorts it first.
	p.kubectl(t, "", "apply", "--server-side", "-k", "overlays/rotation")
	p.established(t)
	p.kubectl(t, "", "apply", "--server-side", "-k", "policies/rules") // as overlays/fail-open does

	t.Run("definitions are structural", func(t *testing.T) { structural(t, p) })
	t.Run("webhook configurations read back as they were applied", func(t *testing.T) { explicit(t, p) })
	t.Run("a CA is replaced under a webhook that is called", func(t *testing.T) { rotation(t, p) })
	t.Run("policies that were removed work when they are there again", func(t *testing.T) { policiesAgain(t, p) })
	t.Run("revisions have few writers", func(t *testing.T) { revisionWriters(t, p) })
	t.Run("shared revisions stay", func(t *testing.T) { sharedRevisions(t, p) })
	t.Run("webhooks are asked when there is something to judge", func(t *testing.T) { conditions(t, p) })
	p.kubectl(t, "", "delete", "mutatingwebhookconfigurations,validatingwebhookconfigurations", "--all")
	t.Run("policies refuse what the engine refuses", func(t *testing.T) { agreement(t, p) })
	t.Run("usual guests are left out", func(t *testing.T) { usual(t, p) })
	t.Run("and nothing more", func(t *testing.T) { nothingMore(t, p) })
	t.Run("statuses and guests have few writers", func(t *testing.T) { writers(t, p) })
	t.Run("profiles whose selectors hosts cannot read are refused", func(t *testing.T) { hostProfiles(t, p) })
	t.Run("policies of profiles that hosts cannot read are refused", func(t *testing.T) { hostPolicies(t, p) })
	t.Run("what a FrontendProfile must not hold is refused", func(t *testing.T) { frontendProfiles(t, p) })
	t.Run("guests have no owner of a user's choice", func(t *testing.T) { newOwners(t, p) })
	t.Run("the hardware of guests has few writers", func(t *testing.T) { hardwareWriters(t, p) })
	t.Run("contents of snapshots have few writers", func(t *testing.T) { contentWriters(t, p) })
	t.Run("the pods of guests have one writer each", func(t *testing.T) { guestPodWriters(t, p) })
	t.Run("the devices of a node write their own", func(t *testing.T) { deviceWriters(t, p) })
	t.Run("administrators mend statuses", func(t *testing.T) { administrators(t, p) })
	t.Run("snapshots, restores and clones stay as they were created", func(t *testing.T) { snapshotKinds(t, p) })
	t.Run("names, columns and descriptions", func(t *testing.T) { appearance(t, p) })
	t.Run("manifests are accepted whole", func(t *testing.T) { accepted(t, p) })
}

// structural: a schema that is not structural is served, but prunes and explains nothing.
func structural(t *testing.T, p plane) {
	const each = `{range .items[*]}{.metadata.name}{range .status.conditions[?(@.status=="True")]} {.type}{end}{"\n"}{end}`
	lines := strings.Split(strings.TrimSpace(p.kubectl(t, "", "get", "crd", "-o", "jsonpath="+each)), "\n")
	if len(lines) != 19 {
		t.Errorf("%d definitions, want 19: %v", len(lines), lines)
	}
	for _, line := range lines {
		if !strings.HasSuffix(line, " NamesAccepted Established") {
			t.Errorf("conditions: %s", line)
		}
	}
}

// explicit: a field that the server fills in is a difference that tools for Git report for ever.
func explicit(t *testing.T, p plane) {
	readBack(t, p, documents(t, p.kubectl(t, "", "kustomize", "webhook/configurations")))
}

func appearance(t *testing.T, p plane) {
	p.kubectl(t, "", "apply", "--server-side", "-k", "catalog")
	// kubectl prints no header without a row.
	const rows = `
apiVersion: kubevirt.io/v1
kind: VirtualMachineInstance
metadata: {name: row}
spec: {domain: {devices: {}}}
---
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: row}
spec: {runStrategy: Halted, template: {spec: {domain: {devices: {}}}}}
---
apiVersion: instancetype.kubevirt.io/v1beta1
kind: VirtualMachineInstancetype
metadata: {name: row}
spec: {cpu: {guest: 3}, memory: {guest: 5Gi}}
` + snapshotRows + `
`
	p.kubectl(t, rows, "create", "-f", "-")
	const lifecycle = " LIFECYCLE DEPRECATED OBSOLETE-AFTER REPLACED-BY"
	for _, c := range []struct{ why, kind, want string }{
		{"KubeVirt's columns of a VM, and Kiln's", "vms", "NAME AGE STATUS READY RESTART-REQUIRED INSTANCETYPE PREFERENCE MESSAGE"},
		{"KubeVirt's columns of a VMI, wide ones last", "vmis", "NAME AGE PHASE IP NODENAME READY LIVE-MIGRATABLE PAUSED"},
		{"an instancetype shows CPU and memory, after the age", "vmf", "NAME AGE CPU MEMORY DEDICATED HUGEPAGES OVERCOMMIT" + lifecycle},
		{"a cluster-wide instancetype shows them, too", "vmcf", "NAME AGE CPU MEMORY DEDICATED HUGEPAGES OVERCOMMIT" + lifecycle},
		{"a preference shows what it needs", "vmcp", "NAME AGE MIN-CPU MIN-MEMORY" + lifecycle},
		{"KubeVirt's columns of a snapshot", "vmsnapshots", "NAME SOURCEKIND SOURCENAME PHASE READYTOUSE CREATIONTIME ERROR"},
		{"KubeVirt's columns of a content, and Kiln's", "vmsnapshotcontents", "NAME READYTOUSE CREATIONTIME ERROR RECORD"},
		{"KubeVirt's columns of a restore", "vmrestores", "NAME TARGETKIND TARGETNAME COMPLETE RESTORETIME"},
		{"KubeVirt's columns of a clone", "vmclones", "NAME PHASE SOURCEVIRTUALMACHINE TARGETVIRTUALMACHINE"},
	} {
		header, _, _ := strings.Cut(p.kubectl(t, "", "get", c.kind, "-o", "wide"), "\n")
		if got := strings.Join(strings.Fields(header), " "); got != c.want {
			t.Errorf("%s: '%s', want '%s'", c.why, got, c.want)
		}
	}
	if out := p.kubectl(t, "", "get", "all"); !strings.Contains(out, "virtualmachine.kubevirt.io/row") || strings.Contains(out, "/small") {
		t.Errorf("the category 'all' must have VMs, and nothing of the cluster's:\n%s", out)
	}
	if out := p.kubectl(t, "", "explain", "vm.spec.template.spec.domain.cpu.cores"); !strings.Contains(out, "number of cores inside the vmi") {
		t.Errorf("explain tells nothing:\n%s", out)
	}
	const old = "apiVersion: kubevirt.io/v1alpha3\nkind: VirtualMachine\nmetadata: {name: old}\n" +
		"spec: {runStrategy: Halted, template: {spec: {domain: {devices: {}}}}}\n"
	if out := p.kubectl(t, old, "create", "-f", "-"); !strings.Contains(out, "v1alpha3 is deprecated") {
		t.Errorf("no warning about the old version: %s", out)
	}
	if got := p.kubectl(t, "", "get", "vm", "old", "-o", "jsonpath={.apiVersion}"); got != "kubevirt.io/v1" {
		t.Errorf("the old version reads back as %s", got)
	}
}

// accepted applies every example and catalog object strictly, and finds each field that it wrote.
func accepted(t *testing.T, p plane) {
	directories := []string{"catalog", "../examples"}
	shared := os.Getenv("KILN_SHARED")
	if shared == "" {
		shared = "../../shared"
	}
	if _, err := os.Stat(shared); err == nil {
		directories = append(directories, filepath.Join(shared, "examples"), filepath.Join(shared, "catalog"))
	} else {
		t.Logf("'%s' is absent: only the project's own manifests are applied", shared)
	}
	objects := 0
	for _, directory := range directories {
		files, err := filepath.Glob(filepath.Join(directory, "*.yaml"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no manifests in '%s': %v", directory, err)
		}
		for _, file := range files {
			objects += acceptedFile(t, p, file)
		}
	}
	t.Logf("%d objects", objects)
}

func acceptedFile(t *testing.T, p plane, file string) (objects int) {
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range documents(t, string(content)) {
		if want.GetKind() == "VirtualMachineInstanceReplicaSet" || want.GetKind() == "Kustomization" {
			continue // the one is not served, the other no object
		}
		document, err := json.Marshal(want.Object)
		if err != nil {
			t.Fatal(err)
		}
		out, err := p.try("", string(document), "apply", "--server-side", "--dry-run=server", "--validate=strict", "-o", "json", "-f", "-")
		if err != nil {
			t.Errorf("%s: %s '%s': %s", file, want.GetKind(), want.GetName(), out)
			continue
		}
		_, answer, _ := strings.Cut(out, "{") // warnings come first
		got := documents(t, "{"+answer)[0]
		for _, path := range missing(want.Object, got.Object, "") {
			t.Errorf("%s: %s '%s': %s was pruned or changed", file, want.GetKind(), want.GetName(), path)
		}
		objects++
	}
	return objects
}

// missing lists the paths of want whose value got does not have.
func missing(want, got any, path string) (paths []string) {
	switch want := want.(type) {
	case map[string]any:
		fields, _ := got.(map[string]any)
		if fields == nil {
			return []string{path}
		}
		for key, value := range want {
			paths = append(paths, missing(value, fields[key], path+"."+key)...)
		}
	case []any:
		items, _ := got.([]any)
		if len(items) != len(want) {
			return []string{path}
		}
		for i, value := range want {
			paths = append(paths, missing(value, items[i], path+"[]")...)
		}
	default:
		if !cmp.Equal(want, got) {
			return []string{path}
		}
	}
	return paths
}
