package cli

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/kilnvm/kiln/internal/workbench/audit"
)

// newerVM has a field that this version does not know in its spec, template, guest, status, and in elements of lists.
const newerVM = `apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: web, namespace: shop, uid: u, resourceVersion: "1"}
spec:
  runStrategy: Halted
  later: {a: 1}
  template:
    later: b
    spec:
      later: [1, {c: 2}]
      domain:
        later: true
        memory: {guest: 1Gi}
        devices: {disks: [{name: d, disk: {bus: virtio, later: d}, later: e}]}
      volumes: [{name: d, later: {z: 1}, emptyDisk: {capacity: 1Gi}}]
status: {later: 3}
`

// TestFieldsOfANewerAPI: what a cluster with a newer API has stored is judged without the fields that this program does not know. Commands say so, and print
// these fields where they print the guest.
func TestFieldsOfANewerAPI(t *testing.T) {
	t.Parallel()
	namespace := "{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {kilnvm.io/admission: warn}}}\n"
	server := apiServer{}
	flags := server.serve(t, newerVM, namespace)
	const warning = "the cluster's API is newer than this program, which neither judges nor compares 8 of its fields, such as 'spec.later'"
	for _, args := range [][]string{
		{"validate", "vm/web"}, {"explain", "vm/web"}, {"expand", "vm/web"}, {"render", "vm/web"}, {"diff", "vm/web", "vm/web"},
	} {
		got := call(t, "", append(args, flags...)...)
		if got.err != nil || !strings.Contains(got.out+got.errOut, warning) {
			t.Errorf("%v: %v\n%s%s", args, got.err, got.out, got.errOut)
		}
	}
	want := map[string]any{"spec.later": []any{1.0, map[string]any{"c": 2.0}}, "spec.domain.later": true, "spec.disks.later": "e", "spec.disk.later": "d",
		"spec.volumes.later": map[string]any{"z": 1.0}}
	for _, stage := range []string{workbench.StageDefaults, "instancetype"} {
		got := call(t, "", append([]string{"expand", "vm/web", "-o", "json", "--stage", stage}, flags...)...)
		var vmi struct {
			Spec struct {
				Later  any
				Domain struct {
					Later   any
					Devices struct {
						Disks []struct {
							Later any
							Disk  struct{ Later any }
						}
					}
				}
				Volumes []struct{ Later any }
			}
		}
		if err := json.Unmarshal(item(t, got), &vmi); err != nil {
			t.Fatalf("%s: %v, %v: %s%s", stage, err, got.err, got.out, got.errOut)
		}
		spec := vmi.Spec
		found := map[string]any{"spec.later": spec.Later, "spec.domain.later": spec.Domain.Later, "spec.disks.later": spec.Domain.Devices.Disks[0].Later,
			"spec.disk.later": spec.Domain.Devices.Disks[0].Disk.Later, "spec.volumes.later": spec.Volumes[0].Later}
		if diff := cmp.Diff(want, found); diff != "" {
			t.Errorf("stage %s: %s", stage, diff)
		}
	}
	got := call(t, "", append([]string{"expand", "vm/web", "-o", "json", "--stage", workbench.StageAdmitted}, flags...)...)
	if count := strings.Count(got.out, `"later"`); count != 7 { // a VM is printed without its status
		t.Errorf("the admitted VM has %d of the fields: %v %s%s", count, got.err, got.out, got.errOut)
	}
	dir, _ := write(t, newerVM, namespace)
	for _, from := range [][]string{{"-f", dir}, append([]string{"-A"}, flags...)} {
		got := call(t, "", append([]string{"audit", "--runtime", "kubevirt", "-o", "json"}, from...)...)
		var a audit.Audit
		if err := json.Unmarshal([]byte(got.out), &a); err != nil || got.err != nil || a.Judged == nil || len(a.Objects) > 0 {
			t.Errorf("audit %v: %v, %v: %s%s", slices.Clip(from), err, got.err, got.out, got.errOut)
		}
	}
}
