package cli

import (
	"strings"
	"testing"

	"github.com/kilnvm/kiln/internal/cli/cmdutil"
)

const pool = "apiVersion: export.kubevirt.io/v1beta1\nkind: VirtualMachineExport\nmetadata: {name: ten, namespace: shop}\n"

// TestNamesThatAreNotThere: the message names the most similar name, and --strict makes it a rejection at the field.
func TestNamesThatAreNotThere(t *testing.T) {
	t.Parallel()
	const absent = "is not among the files of -f and --catalog"
	sizes := func(names ...string) (all string) {
		for _, name := range names {
			all += strings.Replace(size, "name: medium", "name: "+name, 1) + "---\n"
		}
		return all
	}
	preferred := strings.NewReplacer("instancetype: {name: medium}", "preference: {name: linus}", "devices: {}", "memory: {guest: 1Gi}, devices: {}").Replace(vm)
	for _, test := range []struct{ why, vm, others, field, message string }{
		{"a letter is missing", strings.Replace(vm, "medium", "u1.smal", 1), sizes("u1.small", "u1.large", "u1.medium"),
			"spec.instancetype.name", "did you mean 'u1.small'?"},
		{"nothing is like it", strings.Replace(vm, "medium", "gigantic", 1), sizes("u1.small"), "spec.instancetype.name", absent},
		{"there is no catalog", vm, "", "spec.instancetype.name", absent},
		{"a preference", preferred, preference, "spec.preference.name", "did you mean 'linux'?"},
		{"an instancetype of the namespace is meant by its kind", strings.Replace(vm, "{name: medium}", "{kind: VirtualMachineInstancetype, name: medum}", 1),
			sizes("medim") + strings.Replace(strings.Replace(size, "Cluster", "", 1), "name: medium", "name: medium, namespace: shop", 1),
			"spec.instancetype.name", "did you mean 'medium'?"},
	} {
		_, file := write(t, test.vm)
		_, catalog := write(t, test.others)
		lax, strict := call(t, "", "validate", "-f", file, "--catalog", catalog), call(t, "", "validate", "-f", file, "--catalog", catalog, "--strict")
		warning := strings.TrimSpace(lax.errOut)
		if lax.err != nil || !strings.HasPrefix(warning, "Warning: VirtualMachine shop/web: ") ||
			!strings.HasSuffix(warning, test.message) || !strings.Contains(warning, absent) || strings.Contains(warning, "\n") {
			t.Errorf("%s: want one warning with '%s', got %v\n%s", test.why, test.message, lax.err, lax.errOut)
		}
		if cmdutil.ExitStatus(strict.err) != 1 || !strings.Contains(strict.errOut, "  "+test.field+": Not found: ") ||
			!strings.Contains(strict.errOut, test.message) ||
			!strings.Contains(strict.errOut, file+":") || strings.Contains(strict.errOut, "Warning") {
			t.Errorf("%s: --strict: want %s with its line, got %v\n%s", test.why, test.field, strict.err, strict.errOut)
		}
	}
	_, file := write(t, size, vm)
	if got := call(t, "", "validate", "-f", file, "--strict"); got.err != nil || got.errOut != "" {
		t.Errorf("what is there is accepted: %v\n%s", got.err, got.errOut)
	}
}

// TestAVolumeThatCannotTell is refused under --strict too: which instancetype the VM gets is not known.
func TestAVolumeThatCannotTell(t *testing.T) {
	t.Parallel()
	inferring := strings.NewReplacer("{name: medium}", "{inferFromVolume: root}",
		`containerDisk: {image: "os:1"}`, "persistentVolumeClaim: {claimName: disk}").Replace(vm)
	_, file := write(t, inferring)
	if got := call(t, "", "validate", "-f", file); got.err != nil {
		t.Errorf("%v\n%s", got.err, got.errOut)
	}
	got := call(t, "", "validate", "-f", file, "--strict")
	if cmdutil.ExitStatus(got.err) != 1 || !strings.Contains(got.errOut, `  spec.instancetype.inferFromVolume: Not found: "root"`) {
		t.Errorf("%v\n%s", got.err, got.errOut)
	}
}

// TestARevisionThatIsNotThere is one cause, with --strict and without.
func TestARevisionThatIsNotThere(t *testing.T) {
	t.Parallel()
	_, file := write(t, size, strings.Replace(vm, "{name: medium}", "{name: medium, revisionName: gone}", 1))
	for _, args := range [][]string{{}, {"--strict"}} {
		got := call(t, "", append([]string{"validate", "-f", file, "-o", "json"}, args...)...)
		all := judged(t, got)
		if len(all) != 1 || len(all[0].Causes) != 1 || all[0].Causes[0].Field != "spec.instancetype.revisionName" || cmdutil.ExitStatus(got.err) != 1 {
			t.Errorf("%q: want one cause: %v\n%s", args, got.err, got.out)
		}
	}
}

// TestKindsThatAreNotServed: they are named, and --strict refuses kinds of KubeVirt.
func TestKindsThatAreNotServed(t *testing.T) {
	t.Parallel()
	volume := "apiVersion: cdi.kubevirt.io/v1beta1\nkind: DataVolume\nmetadata: {name: disk, namespace: shop}\n"
	configuration := "apiVersion: kubevirt.io/v1\nkind: KubeVirt\nmetadata: {name: kubevirt, namespace: kubevirt}\n"
	replicas := "apiVersion: kubevirt.io/v1\nkind: VirtualMachineInstanceMigration\nmetadata: {name: ten, namespace: shop}\n"
	service := "apiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: shop}\n"
	_, file := write(t, pool, volume, configuration, replicas, service, size, vm)
	const named = "skipped: VirtualMachineExport shop/ten: Kiln does not serve this kind of export.kubevirt.io/v1beta1\n" +
		"skipped: DataVolume shop/disk: CDI serves this kind, and no VM here infers its instancetype or preference from it\n" +
		"skipped: VirtualMachineInstanceMigration shop/ten: Kiln does not serve this kind of kubevirt.io/v1\n"
	for _, command := range []string{"validate", "expand", "explain", "render"} {
		if got := call(t, "", command, "-f", file); got.err != nil || got.errOut != named || !strings.Contains(got.out, "web") {
			t.Errorf("%s: %v\n%s%s", command, got.err, got.errOut, got.out)
		}
		got := call(t, "", command, "-f", file, "--strict")
		if cmdutil.ExitStatus(got.err) != 1 ||
			!strings.Contains(got.errOut, "  kind: Forbidden: Kiln does not serve this kind of export.kubevirt.io/v1beta1\n    "+
				file+":2: kind: VirtualMachineExport\n") ||
			!strings.Contains(got.errOut, "skipped: DataVolume") || !strings.Contains(got.errOut, "Migration shop/ten is rejected") ||
			!strings.Contains(got.out, "web") {
			t.Errorf("%s --strict: %v\n%s%s", command, got.err, got.errOut, got.out)
		}
	}
}

// TestServedVersions: v1alpha3 is judged by its own schema and then is a v1 object, as the webhook sees it.
func TestServedVersions(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{vm, preset, "apiVersion: kubevirt.io/v1\nkind: VirtualMachineInstance\nmetadata: {name: web, namespace: shop}\n" +
		"spec: {domain: {memory: {guest: 1Gi}, devices: {}}}\n"} {
		old := strings.Replace(kind, "kubevirt.io/v1", "kubevirt.io/v1alpha3", 1)
		_, file := write(t, size, old)
		got := call(t, "", "validate", "-f", file)
		if got.err != nil || strings.Count(got.out, "is accepted") != 2 || !strings.Contains(got.errOut, "deprecated") {
			t.Errorf("%v\n%s%s", got.err, got.errOut, got.out)
		}
		_, wrong := write(t, strings.Replace(old, "domain: {", "domain: {devises: {}, ", 1))
		if got := call(t, "", "validate", "-f", wrong); cmdutil.ExitStatus(got.err) != 1 ||
			!strings.Contains(got.errOut, "domain.devises: Forbidden: unknown field") {
			t.Errorf("an unknown field: %v\n%s%s", got.err, got.errOut, got.out)
		}
		if kind == preset {
			continue
		}
		_, file = write(t, size, old, preset)
		_, today := write(t, size, kind, preset)
		for _, command := range [][]string{
			{"expand"}, {"expand", "--stage", "all"}, {"explain"}, {"render"},
		} {
			was, is := call(t, "", append(command, "-f", file)...), call(t, "", append(command, "-f", today)...)
			if was.err != nil || was.out != is.out {
				t.Errorf("%q: v1alpha3 differs from v1: %v\n%s\n%s", command, was.err, was.out, is.out)
			}
		}
	}
	for _, version := range []string{"v1alpha1", "v1alpha2"} { // the CRDs do not serve them
		_, file := write(t, strings.Replace(size, "v1beta1", version, 1))
		if got := call(t, "", "validate", "-f", file); cmdutil.ExitStatus(got.err) != 1 ||
			!strings.Contains(got.errOut, "instancetype.kubevirt.io/"+version+" has no such kind") {
			t.Errorf("%s: %v\n%s%s", version, got.err, got.errOut, got.out)
		}
	}
}

// TestCatalogRepeats: each --catalog counts, for every command that has it.
func TestCatalogRepeats(t *testing.T) {
	t.Parallel()
	_, sizes := write(t, size)
	_, others := write(t, preference, preset)
	_, file := write(t, preferred)
	for _, command := range [][]string{
		{"validate", "-f", file, "--strict"}, {"expand", "-f", file}, {"explain", "-f", file}, {"render", "-f", file}, {"diff", file, file},
	} {
		for _, catalogs := range [][]string{{"--catalog", sizes, "--catalog", others}, {"--catalog", sizes + "," + others}} {
			if got := call(t, "", append(command, catalogs...)...); got.err != nil || got.out == "" {
				t.Errorf("%q: %v\n%s", command, got.err, got.errOut)
			}
		}
	}
}

// TestReferencesOfOthers: snapshots, clones and profiles that name what is not there get the hint of VMs, from the files alone.
func TestReferencesOfOthers(t *testing.T) {
	t.Parallel()
	const api, guests = "{apiVersion: snapshot.kubevirt.io/v1beta1, kind: ", "{apiVersion: kilnvm.io/v1alpha1, kind: "
	profile := guests + "ClusterGuestProfile, metadata: {name: hardened}, spec: {template: {spec: {}}}}\n"
	for _, test := range []struct {
		why, object, want string
		// refused says which answer is a rejection: always, or with --strict.
		refused, strict bool
	}{
		{"a VM", api + "VirtualMachineSnapshot, metadata: {name: a, namespace: shop}, spec: {source: {apiGroup: kubevirt.io, kind: VirtualMachine, name: wep}}}\n",
			"spec.source.name: VirtualMachine 'wep' does not exist: the snapshot waits for it until its failureDeadline; did you mean 'web'?", false, false},
		{"a kind", api + "VirtualMachineSnapshot, metadata: {name: a, namespace: shop}, spec: {source: {apiGroup: kubevirt.io, kind: virtualmachine, name: web}}}\n",
			`supported values: "VirtualMachine"; did you mean 'VirtualMachine'?`, true, true},
		{"a base of the cluster", guests + "GuestProfile, metadata: {name: a, namespace: shop}, spec: {extends: [{name: hardened}], template: {spec: {}}}}\n",
			"; did you mean kind 'ClusterGuestProfile'?", false, true},
		{"the kind of a base", guests + "GuestProfile, metadata: {name: a, namespace: shop}, spec: {extends: [{kind: clusterguestprofile, name: hardened}]," +
			" template: {spec: {}}}}\n",
			"GuestProfile shop/a is rejected:\n  spec.extends[0].kind: Unsupported value: \"clusterguestprofile\": " +
				`supported values: "GuestProfile", "ClusterGuestProfile"; did you mean 'ClusterGuestProfile'?`, true, true},
	} {
		_, file := write(t, size, vm, profile, test.object)
		lax, strict := call(t, "", "validate", "-f", file), call(t, "", "validate", "-f", file, "--strict")
		printed := strings.Contains(lax.errOut, test.want) && strings.Contains(strict.errOut, test.want)
		if (lax.err != nil) != test.refused || (strict.err != nil) != test.strict || !printed {
			t.Errorf("%s: want '%s'\n%v\n%s%v\n%s", test.why, test.want, lax.err, lax.errOut, strict.err, strict.errOut)
		}
	}
}

// TestWhatVolumesRecommend: DataSources and claims of the files are read by the webhook's code, and the answer says which.
func TestWhatVolumesRecommend(t *testing.T) {
	t.Parallel()
	const cdi = "apiVersion: cdi.kubevirt.io/v1beta1\n"
	claim := "apiVersion: v1\nkind: PersistentVolumeClaim\n" +
		"metadata: {name: f, namespace: images, labels: {instancetype.kubevirt.io/default-instancetype: medium}}\n"
	image := cdi + "kind: DataSource\nmetadata: {name: fedora, namespace: images}\nspec: {source: {pvc: {name: f, namespace: images}}}\n"
	inferring := strings.NewReplacer("{name: medium}", "{inferFromVolume: root}", `containerDisk: {image: "os:1"}`, "dataVolume: {name: d}").Replace(vm) +
		"  dataVolumeTemplates: [{metadata: {name: d}, spec: {sourceRef: {kind: DataSource, name: fedora, namespace: images}, storage: {}}}]\n"
	const inferred = "inferred: VirtualMachine shop/web: spec.instancetype.inferFromVolume: " +
		"DataSource 'images/fedora' leads to PersistentVolumeClaim 'images/f', " +
		"which recommends VirtualMachineClusterInstancetype 'medium'\n"
	other := strings.Replace(image, "name: fedora", "name: other", 1)
	_, file := write(t, size, inferring, image, other)
	_, catalog := write(t, claim)
	got := call(t, "", "validate", "-f", file, "--catalog", catalog, "--strict")
	if got.err != nil || !strings.Contains(got.errOut, inferred) || strings.Contains(got.errOut, "images/fedora: ") ||
		!strings.Contains(got.errOut, "skipped: DataSource images/other: CDI serves this kind, and no VM here infers") {
		t.Errorf("%v\n%s", got.err, got.errOut)
	}
	if got := call(t, "", "validate", "-f", file, "--catalog", catalog, "-o", "json"); !strings.Contains(got.out, `"PersistentVolumeClaim 'images/f'"`) ||
		strings.Contains(got.errOut, "inferred: ") {
		t.Errorf("%s%s", got.out, got.errOut)
	}
	const missing = "spec.instancetype.inferFromVolume: PersistentVolumeClaim 'images/f' is not among the files; "
	if got := call(t, "", "validate", "-f", file); got.err != nil || !strings.Contains(got.errOut, missing) {
		t.Errorf("%v\n%s", got.err, got.errOut)
	}
}
