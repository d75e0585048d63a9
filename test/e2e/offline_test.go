package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// plain is a VM with metadata of its own and nothing else that matters.
func plain(metadata string) string {
	return "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: " + metadata + `
spec:
  runStrategy: Halted
  template:
    spec:
      domain: {memory: {guest: 64Mi}, devices: {}}
      volumes: [{name: root, containerDisk: {image: "os:1"}}]
`
}

// refusedField is a field that an API server names, alone or in a list.
var refusedField = regexp.MustCompile(`(?m)(?:is invalid: |^\* )([a-zA-Z][\w.\[\]/-]*):`)

// indices of owner references: older API servers do not tell them.
var indices = regexp.MustCompile(`\[\d+\]`)

// TestOfflineVerdictsOnMetadata: 'kubectl kiln validate' says of names, labels and annotations what the API server does, and reads
// the versions that it serves.
func TestOfflineVerdictsOnMetadata(t *testing.T) {
	s := newSpace(t)
	alpha := strings.Replace(plain("{name: web}"), "kubevirt.io/v1", "kubevirt.io/v1alpha3", 1)
	inTemplate := strings.Replace(plain("{name: web}"), "template:\n", "template:\n    metadata: {labels: {a: 'b c'}}\n", 1)
	empty := strings.NewReplacer("devices: {}", "devices: {disks: [], interfaces: [], inputs: []}, resources: {requests: {}}",
		"template:\n", "template:\n    metadata: {annotations: {}}\n").Replace(plain("{name: web, annotations: {}, labels: {}, finalizers: []}"))
	for _, test := range []struct {
		why, manifest string
		allowed       bool
	}{
		{"a name", plain("{name: web}"), true},
		{"a name of several labels", plain("{name: web.shop.example}"), true},
		{"a name to be generated", plain("{generateName: web-}"), true},
		{"a long name to be generated is cut", plain("{generateName: " + strings.Repeat("a", 80) + "}"), true},
		{"no name", plain("{labels: {a: b}}"), false},
		{"a name in capitals", plain("{name: 'Bad_Name!'}"), false},
		{"a name that is a path", plain("{name: a/b}"), false},
		{"a name of 254 characters", plain("{name: " + strings.Repeat("a", 254) + "}"), false},
		{"a generated name in capitals", plain("{generateName: Web-}"), false},
		{"labels and annotations", plain("{name: web, labels: {app.example/tier: Web_1}, annotations: {example/Key: 'any: text'}}"), true},
		{"a label key with a space", plain("{name: web, labels: {a b: c}}"), false},
		{"a label value of 64 characters", plain("{name: web, labels: {a: " + strings.Repeat("b", 64) + "}}"), false},
		{"an annotation key with a space", plain("{name: web, annotations: {a b: c}}"), false},
		{"annotations of more than 256 KiB", plain("{name: web, annotations: {a: " + strings.Repeat("b", 256<<10) + "}}"), false},
		{"annotations of just 256 KiB", plain("{name: web, annotations: {a: " + strings.Repeat("b", 256<<10-1) + "}}"), true},
		{"a finalizer that is no name", plain("{name: web, finalizers: ['a b']}"), false},
		{"an owner without a UID", plain("{name: web, ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: a}]}"), false},
		{"a number as a label", plain("{name: web, labels: {a: 1}}"), false},
		{"labels of the template", inTemplate, false},
		{"empty lists and maps", empty, true},
		{"v1alpha3", alpha, true},
		{"v1alpha3 with a typing error", strings.Replace(alpha, "guest: 64Mi", "guest: 64 megs", 1), false},
		{"a size that names a namespace", "apiVersion: instancetype.kubevirt.io/v1beta1\nkind: VirtualMachineClusterInstancetype\n" +
			"metadata: {name: offline-" + s.name + ", namespace: " + s.name + "}\nspec: {cpu: {guest: 1}, memory: {guest: 1Gi}}\n", true},
	} {
		file := filepath.Join(t.TempDir(), "vm.yaml")
		if err := os.WriteFile(file, []byte(test.manifest), 0o600); err != nil {
			t.Fatal(err)
		}
		online := s.kubectl(test.manifest, "create", "--dry-run=server", "-f", "-")
		offline := s.judged(file, file)
		if len(offline) != 1 {
			t.Errorf("%s: %d verdicts", test.why, len(offline))
		}
		for _, verdict := range offline {
			if verdict.Allowed != test.allowed || test.allowed != (online.err == nil) {
				t.Errorf("%s: want allowed %v, got offline %v, online %v\n%s", test.why, test.allowed, verdict.Allowed, online.err, online.stderr)
			}
			var there, here []string
			for _, named := range refusedField.FindAllStringSubmatch(online.stderr, -1) {
				there = append(there, indices.ReplaceAllString(named[1], ""))
			}
			for _, cause := range verdict.Causes {
				here = append(here, indices.ReplaceAllString(cause.Field, ""))
			}
			slices.Sort(there)
			slices.Sort(here)
			// An API server that cannot decode the object names no field.
			if strings.Contains(online.stderr, "is invalid") && !slices.Equal(slices.Compact(there), slices.Compact(here)) {
				t.Errorf("%s: offline names %q, the cluster %q\n%s", test.why, here, there, online.stderr)
			}
		}
	}
}
