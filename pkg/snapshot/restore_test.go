package snapshot

import (
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/pkg/record"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	clone "kubevirt.io/api/clone/v1beta1"
	v1 "kubevirt.io/api/core/v1"
	api "kubevirt.io/api/snapshot/v1beta1"
)

// restoreTo is a restore into a target.
func restoreTo(name string, patches ...string) *api.VirtualMachineRestore {
	return &api.VirtualMachineRestore{ObjectMeta: metav1.ObjectMeta{Name: "back", Namespace: "team", UID: "r-1"}, Spec: api.VirtualMachineRestoreSpec{
		Target: corev1.TypedLocalObjectReference{Name: name}, Patches: patches}, Status: &api.VirtualMachineRestoreStatus{}}
}

// TestInPlace: the VM is what it was, and keeps what is not configuration.
func TestInPlace(t *testing.T) {
	t.Parallel()
	k := kept(t, Moment{VM: vmOf(t, demo), Hardware: hardware()})
	now := vmOf(t, demo)
	now.Spec.Template.Spec.Networks, now.Spec.Instancetype = nil, nil
	now.Spec.RunStrategy = ptr.To(v1.RunStrategyHalted)
	now.Labels = map[string]string{"app": "newer"}
	now.Annotations = map[string]string{"note": "newer", "kilnvm.io/pins": `{"instancetype":"small-2"}`, "kilnvm.io/hardware": "latest",
		"kilnvm.io/generation": "8"}
	before := now.DeepCopy()
	got := k.InPlace(now, restoreTo("demo"))
	if diff := cmp.Diff(before, now); diff != "" {
		t.Errorf("the VM that was given has changed:\n%s", diff)
	}
	want := k.VM.Spec.DeepCopy()
	want.RunStrategy = ptr.To(v1.RunStrategyHalted)
	if diff := cmp.Diff(*want, got.Spec); diff != "" {
		t.Errorf("spec:\n%s", diff)
	}
	annotations := map[string]string{"note": "newer", "kilnvm.io/pins": k.VM.Annotations["kilnvm.io/pins"], "kilnvm.io/identity": "seed",
		"kilnvm.io/generation": "8", Mark: "back-r-1", "kilnvm.io/record": k.Revision}
	if diff := cmp.Diff(annotations, got.Annotations); diff != "" || got.Labels["app"] != "newer" {
		t.Errorf("labels %v, annotations:\n%s", got.Labels, diff)
	}
	if got := k.GuestHardware(got, restoreTo("demo")); !cmp.Equal(got, *hardware()) {
		t.Errorf("the hardware of the VM itself:\n%s", cmp.Diff(*hardware(), got))
	}
}

// TestAnew: a VM of the old name is the old VM, one of another name has an identity of its own and the places of the devices.
func TestAnew(t *testing.T) {
	t.Parallel()
	k := kept(t, Moment{VM: vmOf(t, demo), Hardware: hardware()})
	same, errs := k.Anew(restoreTo("demo"))
	if len(errs) > 0 || same.Annotations["kilnvm.io/identity"] != "seed" || same.Spec.Template.Spec.Domain.Firmware.Serial != "own" ||
		*same.Spec.RunStrategy != v1.RunStrategyHalted || same.Annotations["kilnvm.io/inference"] != "" || same.Annotations["kilnvm.io/generation"] != "7" {
		t.Errorf("%v %+v", errs, same)
	}
	hostile := []string{`{"op":"remove","path":"/metadata/annotations/kilnvm.io~1identity"}`, `{"op":"add","path":"/metadata/annotations/` +
		`restore.kubevirt.io~1lastRestoreUID","value":"other"}`, `{"op":"add","path":"/spec/template/spec/domain/devices/interfaces/1/macAddress",` +
		`"value":"02:00:00:00:00:09"}`}
	restore := restoreTo("copy", hostile...)
	other, errs := k.Anew(restore)
	if len(errs) > 0 || other.Name != "copy" || other.Annotations["kilnvm.io/identity"] != "r-1" || other.Annotations[Mark] != "back-r-1" ||
		other.Annotations["kilnvm.io/generation"] != "" || other.Annotations["note"] != "mine" {
		t.Fatalf("%v %+v", errs, other.ObjectMeta)
	}
	spec := other.Spec.Template.Spec.Domain
	if spec.Firmware.UUID != "" || spec.Firmware.Serial != "" || spec.Devices.Interfaces[0].MacAddress != "" {
		t.Errorf("the identity of the other VM: %+v", spec)
	}
	got := k.GuestHardware(other, restore)
	of, was := got.Hardware, hardware().Hardware
	if got.Identity != "r-1" || of.UUID == was.UUID || of.UUID == "" || of.Serial == was.Serial || of.VSOCK != "" || of.Digest != "" ||
		of.MACs["default"] == was.MACs["default"] || of.MACs["default"] == "" || of.MACs["lan"] != "02:00:00:00:00:09" {
		t.Errorf("%+v", got)
	}
	if diff := cmp.Diff(was.CPU, of.CPU); diff != "" || of.SchemaVersion != was.SchemaVersion {
		t.Errorf("the CPU (-was +is):\n%s", diff)
	}
	if diff := cmp.Diff(was.Devices, of.Devices); diff != "" || of.Machine != was.Machine {
		t.Errorf("the layout has changed:\n%s", diff)
	}
	if err := record.Check(of); err != nil {
		t.Error(err)
	}
	if none := (Kept{VM: k.VM}).GuestHardware(other, restore); none.Hardware != nil || none.Identity != "r-1" {
		t.Errorf("a VM that never ran: %+v", none)
	}
}

// TestPatches: KubeVirt's rules of what may be patched, and bounds.
func TestPatches(t *testing.T) {
	t.Parallel()
	at := field.NewPath("spec", "patches")
	for text, want := range map[string]string{
		`{"op":"add","path":"/spec/template/metadata/labels/a","value":"b"}`:        "",
		`{"op":"remove","path":"/metadata/labels/a"}`:                               "",
		`{"op":"copy","from":"/spec/runStrategy","path":"/metadata/annotations/a"}`: "",
		`{"op":"replace","path":"/metadata/name","value":"b"}`:                      "changes '/metadata/name'",
		`{"op":"add","path":"/metadata/finalizers/-","value":"b"}`:                  "changes '/metadata/finalizers/-'",
		`{"op":"add","path":"/spec/","value":{}}`:                                   "changes '/spec/'",
		`{"op":"move","from":"/metadata/uid","path":"/spec/a"}`:                     "changes '/metadata/uid'",
		`{"op":"move","path":"/spec/a"}`:                                            "has no 'from'",
		`{"op":"exec","path":"/spec/a"}`:                                            "has the unknown operation 'exec'",
		`{"op":"add"}`:                                                              "has no path",
		`[]`:                                                                        "is no operation",
		`{`:                                                                         "is no operation",
	} {
		errs := checkPatches([]string{text}, at)
		says := "spec.patches[0]: Invalid value: " + strconv.Quote(text) + ": " + want
		if got := errs.ToAggregate(); (want == "") != (got == nil) || got != nil && !strings.Contains(got.Error(), says) {
			t.Errorf("%s: %v, want '%s'", text, got, want)
		}
	}
	if errs := checkPatches(make([]string, mostPatches+1), at); len(errs) != 1 || errs[0].Type != field.ErrorTypeTooMany {
		t.Errorf("many: %.200v", errs)
	}
	if errs := checkPatches([]string{strings.Repeat("a", longestPatches+1)}, at); len(errs) != 1 || errs[0].Type != field.ErrorTypeTooLong {
		t.Errorf("long: %.200v", errs)
	}
	vm := vmOf(t, demo)
	grow := []string{`{"op":"add","path":"/spec/template/metadata/labels/a","value":"` + strings.Repeat("a", 1<<10) + `"}`}
	for range 40 {
		grow = append(grow, `{"op":"copy","from":"/spec/template","path":"/spec/template/metadata/annotations"}`)
	}
	for why, patches := range map[string][]string{
		"no template":    {`{"op":"remove","path":"/spec/template"}`},
		"no such path":   {`{"op":"remove","path":"/spec/template/spec/none/a"}`},
		"of other types": {`{"op":"add","path":"/spec/template/spec/domain","value":7}`},
		"grows":          grow,
	} {
		if after, errs := applyPatches(vm, patches, at); len(errs) == 0 || after != vm {
			t.Errorf("%s: no error", why)
		}
	}
}

// TestVolumes: names and claims are KubeVirt's.
func TestVolumes(t *testing.T) {
	t.Parallel()
	vm := vmOf(t, demo)
	vm.Spec.Template.Spec.Volumes = append(vm.Spec.Template.Spec.Volumes, v1.Volume{Name: "data",
		VolumeSource: v1.VolumeSource{DataVolume: &v1.DataVolumeSource{Name: "data", Hotpluggable: true}}})
	vm.Spec.DataVolumeTemplates = []v1.DataVolumeTemplateSpec{{ObjectMeta: metav1.ObjectMeta{Name: "data"}}, {ObjectMeta: metav1.ObjectMeta{Name: "kept"}}}
	claims, others := Volumes(vm)
	if diff := cmp.Diff([]Volume{{"root", "root"}, {"data", "data"}, {State, "guest-state-demo"}}, claims); diff != "" || !cmp.Equal(others, []string{"seed"}) {
		t.Errorf("others %v, claims:\n%s", others, diff)
	}
	var backups []api.VolumeBackup
	for _, of := range claims {
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: of.Claim, Labels: map[string]string{"l": "1"}, UID: "old",
			Annotations: map[string]string{"pv.kubernetes.io/bind-completed": "yes", "kilnvm.io/tpm-key": "k"}}}
		claim.Spec.VolumeName = "pv-1"
		claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
		backups = append(backups, Backup("s-1", of, claim))
	}
	k := kept(t, Moment{VM: vm}, backups...)
	for why, c := range map[string]struct {
		change func(*api.VirtualMachineRestoreSpec)
		want   string
	}{
		"random":   {func(*api.VirtualMachineRestoreSpec) {}, "restore-r-1-root restore-r-1-data guest-state-demo"},
		"in place": {func(s *api.VirtualMachineRestoreSpec) { s.VolumeRestorePolicy = ptr.To(api.VolumeRestorePolicyInPlace) }, "root data guest-state-demo"},
		"prefixed": {func(s *api.VirtualMachineRestoreSpec) {
			s.VolumeRestorePolicy = ptr.To(api.VolumeRestorePolicyPrefixTargetName)
		},
			"demo-root demo-data guest-state-demo"},
		"named": {func(s *api.VirtualMachineRestoreSpec) {
			s.VolumeRestoreOverrides = []api.VolumeRestoreOverride{{VolumeName: "data", RestoreName: "chosen"}, {VolumeName: "root"}}
		}, "restore-r-1-root chosen guest-state-demo"},
	} {
		restore := restoreTo("demo")
		c.change(&restore.Spec)
		var names []string
		for _, of := range k.Restores(restore) {
			names = append(names, of.PersistentVolumeClaimName)
		}
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("%s: %s", why, got)
		}
	}
	restore := restoreTo("demo")
	restore.Spec.VolumeRestoreOverrides = []api.VolumeRestoreOverride{{VolumeName: "root", Labels: map[string]string{"l": "2"},
		Annotations: map[string]string{"a": "b"}}}
	restore.Status.Restores = k.Restores(restore)
	got := k.InPlace(vm, restore)
	if volumes := got.Spec.Template.Spec.Volumes; volumes[0].PersistentVolumeClaim.ClaimName != "restore-r-1-root" || volumes[2].DataVolume != nil ||
		volumes[2].PersistentVolumeClaim.ClaimName != "restore-r-1-data" || !volumes[2].PersistentVolumeClaim.Hotpluggable ||
		len(got.Spec.DataVolumeTemplates) != 1 {
		t.Errorf("%+v", got.Spec)
	}
	size := resource.MustParse("2Gi")
	claim := RestoredClaim(restore, restore.Status.Restores[0], k.Backup("root"), &size, nil)
	if claim.Spec.VolumeName != "" || claim.UID != "" || claim.Annotations["pv.kubernetes.io/bind-completed"] != "" || claim.Annotations["a"] != "b" ||
		claim.Annotations["kilnvm.io/tpm-key"] != "k" || claim.Labels["l"] != "2" || claim.Annotations[Mark] != "back-r-1" ||
		claim.Spec.DataSource.Name != "vmsnapshot-s-1-volume-root" || claim.Spec.Resources.Requests.Storage().String() != "2Gi" {
		t.Errorf("%+v", claim)
	}
	if long := prefixedName(strings.Repeat("a", 60), "root"); len(long) > 63 || long == prefixedName(strings.Repeat("a", 60), "other") {
		t.Error(long)
	}
}

// TestClonePatches: filters as KubeVirt matches them; Kiln's own annotations stay.
func TestClonePatches(t *testing.T) {
	t.Parallel()
	vm := kept(t, Moment{VM: vmOf(t, demo)}).VM
	spec := &clone.VirtualMachineCloneSpec{LabelFilters: []string{"app", "("}, AnnotationFilters: []string{"*", "!not*"},
		NewMacAddresses: map[string]string{"lan": "02:00:00:00:00:08", "none": "02:00:00:00:00:07"}, NewSMBiosSerial: ptr.To("s-2"), Patches: []string{"own"}}
	spec.Template.LabelFilters = []string{}
	got, err := ClonePatches(vm, spec)
	want := []string{`{"op":"remove","path":"/metadata/labels/tier"}`, `{"op":"remove","path":"/metadata/annotations/note"}`,
		`{"op":"remove","path":"/spec/template/metadata/labels/app"}`,
		`{"op":"add","path":"/spec/template/spec/domain/devices/interfaces/1/macAddress","value":"02:00:00:00:00:08"}`,
		`{"op":"add","path":"/spec/template/spec/domain/firmware/serial","value":"s-2"}`, "own"}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	if all, err := ClonePatches(vm, &clone.VirtualMachineCloneSpec{AnnotationFilters: []string{"note"}}); len(all) > 0 || err != nil {
		t.Errorf("%v %v", err, all)
	}
	k := kept(t, Moment{VM: vm})
	all, errs := k.Anew(restoreTo("copy", got[:len(got)-1]...))
	if len(errs) > 0 || all.Labels["tier"] != "" || all.Annotations["note"] != "" || all.Spec.Template.Spec.Domain.Firmware.Serial != "s-2" {
		t.Errorf("%v %+v", errs, all)
	}
	bad := checkFilters([]string{"a", "*", "!a*", "", "!", "a!", "a*b", "("}, field.NewPath("spec", "labelFilters"))
	if len(bad) != 5 || bad[0].Field != "spec.labelFilters[3]" || bad[4].Field != "spec.labelFilters[7]" {
		t.Errorf("%v", bad)
	}
}
