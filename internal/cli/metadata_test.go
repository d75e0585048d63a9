package cli

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/internal/cli/cmdutil"
)

// TestMetadataIsJudged: every cause at once, with its field and line. The cluster's answers to the like are in test/e2e.
func TestMetadataIsJudged(t *testing.T) {
	t.Parallel()
	judged := func(metadata string) string {
		return strings.Replace(vm, "metadata: {name: web, namespace: shop}", "metadata:\n  "+strings.ReplaceAll(metadata, "; ", "\n  "), 1)
	}
	for _, test := range []struct {
		why, metadata string
		// causes are fields, and their lines.
		causes map[string]int
	}{
		{"neither name nor generateName", "namespace: shop", map[string]int{"metadata.name": 3}},
		{"a name in capitals", "namespace: shop; name: Web", map[string]int{"metadata.name": 5}},
		{"an invalid namespace", "name: web; namespace: a.b", map[string]int{"metadata.namespace": 5}},
		{"a label's key and value", "name: web; labels: {a b: c, d: '!'}", map[string]int{"metadata.labels": 5}},
		{"a label of another type", "name: web; labels: {a: 1}", map[string]int{"metadata.labels": 5}},
		{"an annotation's key", "name: web; annotations: {-a: c}", map[string]int{"metadata.annotations": 5}},
		{"a finalizer", "name: web; finalizers:; - a b", map[string]int{"metadata.finalizers": 5}},
		{"all at once", "name: Web; labels: {a b: c}; annotations: {a b: c}", map[string]int{"metadata.name": 4, "metadata.labels": 5, "metadata.annotations": 6}},
	} {
		_, file := write(t, judged(test.metadata))
		_, catalog := write(t, size)
		got := call(t, "", "validate", "-f", file, "--catalog", catalog)
		for path, number := range test.causes {
			if at := strings.Index(got.errOut, "\n  "+path); at < 0 || !strings.Contains(got.errOut[at:], fmt.Sprintf("    %s:%d: ", file, number)) {
				t.Errorf("%s: want %s at line %d, got\n%s", test.why, path, number, got.errOut)
			}
		}
		if cmdutil.ExitStatus(got.err) != 1 {
			t.Errorf("%s: %v", test.why, got.err)
		}
	}
	_, file := write(t, size,
		judged("generateName: web-; namespace: shop"), judged("generateName: db-; namespace: shop"),
		judged("generateName: Db-; namespace: shop"))
	got := call(t, "", "validate", "-f", file)
	if !strings.HasSuffix(got.out, "VirtualMachine shop/web-* is accepted\nVirtualMachine shop/db-* is accepted\n") ||
		!strings.Contains(got.errOut, file+":35: generateName: Db-") {
		t.Errorf("names to be generated: %v\n%s%s", got.err, got.out, got.errOut)
	}
}

// TestARecordThatCannotBeRead is the mistake of who wrote it, with field and line; a guest cannot be rendered with it.
func TestARecordThatCannotBeRead(t *testing.T) {
	t.Parallel()
	_, file := write(t, strings.Replace(plain, "name: web\n", "name: web\n  annotations: {kilnvm.io/identity: seed}\n", 1),
		"apiVersion: kilnvm.io/v1alpha1\nkind: GuestHardware\nmetadata: {name: web, namespace: shop}\nspec:\n  identity: seed\n"+
			"  hardware: {defaults: a, digest: '', devices: {disk.a: {usb: '9999:1'}}}\n")
	for command, want := range map[string]string{
		"validate": "\n  spec.hardware: Forbidden: ", "render": "which hardware the guest had before is not known: ",
	} {
		if got := call(t, "", command, "-f", file); got.err == nil || !strings.Contains(got.errOut+got.err.Error(), want) {
			t.Errorf("%s: want '%s', got %v\n%s", command, want, got.err, got.errOut)
		}
	}
}
