package resolve

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/objects"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// recommending are the labels of an image that recommends instancetype 's'.
const recommending = `labels: {instancetype.kubevirt.io/default-instancetype: s}`

func parsed(t *testing.T, documents ...string) (list []*unstructured.Unstructured) {
	t.Helper()
	for _, document := range documents {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			t.Fatal(err)
		}
		list = append(list, object)
	}
	return list
}

func claim(name, labels string) string {
	return "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: " + strings.Replace(name, "/", ", namespace: ", 1) + ", " + labels + "}}"
}

// inferring returns a VM with inferFromVolume 'root'. source is YAML: of the volume, or after '|' of a DataVolume template, or after another '|' of its
// labels.
func inferring(t *testing.T, source string, changes ...func(*v1.VirtualMachine)) *v1.VirtualMachine {
	t.Helper()
	volume, template, templated := strings.Cut(source, "|")
	text := "{template: {spec: {domain: {memory: {guest: 1Gi}}, volumes: [{name: root, " + volume + "}]}}"
	if templated {
		template, labels, labelled := strings.Cut(template, "|")
		if labelled {
			labels = ", " + labels
		}
		text += ", dataVolumeTemplates: [{metadata: {name: d" + labels + "}, spec: {" + template + "}}]"
	}
	made := vm(matcher(v1.InstancetypeMatcher{InferFromVolume: "root"}))
	if err := yaml.Unmarshal([]byte(text+"}"), &made.Spec); err != nil {
		t.Fatal(err)
	}
	made.Spec.Instancetype = &v1.InstancetypeMatcher{InferFromVolume: "root"}
	for _, change := range changes {
		change(made)
	}
	return made
}

func ignoring(vm *v1.VirtualMachine) {
	vm.Spec.Instancetype.InferFromVolumeFailurePolicy = new(v1.IgnoreInferFromVolumeFailure)
}

func TestInference(t *testing.T) {
	const templated = "dataVolume: {name: d}|"
	live := size("s", "1Gi", "")
	pin := stored(t, live).GetName()
	source := func(spec string) string {
		return "{apiVersion: cdi.kubevirt.io/v1beta1, kind: DataSource, metadata: {name: ds, namespace: golden}, spec: {" + spec + "}}"
	}
	next := func(spec string) string {
		return strings.Replace(source(spec), "name: ds, namespace: golden", "name: next, namespace: images", 1)
	}
	volume := func(metadata, spec string) string {
		return "{apiVersion: cdi.kubevirt.io/v1beta1, kind: DataVolume, metadata: {name: d, namespace: team, " + metadata + "}, spec: {" + spec + "}}"
	}
	snapshot := "{apiVersion: snapshot.storage.k8s.io/v1, kind: VolumeSnapshot, metadata: {name: sn, namespace: golden, " + recommending + "}}"
	for _, test := range []struct {
		name, why, source string
		objects           []string
		policy            func(*v1.VirtualMachine)
		want, warning     string
		waiting, refused  bool
		asked             []string // sources in other namespaces that rights were checked for
	}{
		{name: "claim", why: "its labels recommend", source: "persistentVolumeClaim: {claimName: p}", objects: []string{claim("p/team", recommending)}, want: pin},
		{name: "claim to come", why: "VM and volume may be applied together", source: "persistentVolumeClaim: {claimName: p}", waiting: true,
			warning: "PersistentVolumeClaim 'team/p' does not exist"},
		{name: "claim to come, ignored", why: "a claim to come may recommend something", source: "persistentVolumeClaim: {claimName: p}", policy: ignoring,
			waiting: true, warning: "does not exist"},
		{name: "claim without label", why: "nothing will ever come", source: "persistentVolumeClaim: {claimName: p}",
			objects: []string{claim("p/team", "labels: {}")}, refused: true},
		{name: "claim without label, ignored", why: "the owner asked for that", source: "persistentVolumeClaim: {claimName: p}",
			objects: []string{claim("p/team", "labels: {}")}, policy: ignoring, want: v1alpha1.PinNone, warning: "the VMI gets no instancetype"},
		{name: "container disk", why: "an image has no labels that can be read", source: "containerDisk: {image: x}", refused: true},
		{name: "DataVolume", why: "its own labels go first", source: "dataVolume: {name: d}", objects: []string{volume(recommending, "source: {http: {url: u}}")},
			want: pin},
		{name: "DataVolume of a source", why: "what it copies is asked next", source: "dataVolume: {name: d}",
			objects: []string{volume("labels: {}", "source: {snapshot: {name: sn, namespace: golden}}"), snapshot}, want: pin,
			asked: []string{"volumesnapshots.snapshot.storage.k8s.io/golden/sn"}},
		{name: "DataVolume gone", why: "it may be removed when its claim is filled", source: "dataVolume: {name: p}",
			objects: []string{claim("p/team", recommending)}, want: pin},
		{name: "DataVolume of a web page", why: "it has no labels", source: "dataVolume: {name: d}",
			objects: []string{volume("labels: {}", "source: {http: {url: u}}")}, refused: true},
		{name: "template", why: "the DataVolume is made when the VM is there", source: templated + "source: {pvc: {name: p, namespace: team}}",
			objects: []string{claim("p/team", recommending)}, want: pin},
		{name: "template of a registry, to come", why: "its DataVolume gets the labels of the image", source: templated + "source: {registry: {url: u}}",
			waiting: true, warning: "DataVolume 'team/d' and its claim have no label"},
		{name: "template of a registry, ignored", why: "a DataVolume to come may recommend something", source: templated + "source: {registry: {url: u}}",
			policy: ignoring, waiting: true, warning: "have no label"},
		{name: "template of a web page, to come", why: "the DataVolume that is made from it may have labels", source: templated + "source: {http: {url: u}}",
			waiting: true, warning: "have no label"},
		{name: "template, and the claim is there", why: "the claim that the guest boots from recommends", source: templated + "source: {registry: {url: u}}",
			objects: []string{claim("d/team", recommending)}, want: pin},
		{name: "template, and the DataVolume is there", why: "it goes before the template", source: templated + "source: {http: {url: u}}",
			objects: []string{volume(recommending, "source: {http: {url: u}}")}, want: pin},
		{name: "template, and the claim has no label", why: "nothing will come", source: templated + "source: {registry: {url: u}}",
			objects: []string{claim("d/team", "labels: {}")}, refused: true},
		{name: "DataVolume of a registry, being imported", why: "the labels come", source: "dataVolume: {name: d}",
			objects: []string{volume("labels: {}", "source: {registry: {url: u}}")}, waiting: true, warning: "have no label"},
		{name: "DataVolume of a registry, imported", why: "the image has none", source: "dataVolume: {name: d}",
			objects: []string{volume("labels: {}", "source: {registry: {url: u}}}, status: {phase: Succeeded")}, refused: true},
		{name: "template with labels", why: "the DataVolume that is made from it has them", want: pin,
			source: "dataVolume: {name: d}|source: {registry: {url: u}}|" + recommending},
		{name: "template with labels, and a claim without", why: "the claim that the guest boots from recommends", refused: true,
			source: "dataVolume: {name: d}|source: {registry: {url: u}}|" + recommending, objects: []string{claim("d/team", "labels: {}")}},
		{name: "template with labels, and another DataVolume", why: "it goes before the template", waiting: true,
			warning: "DataVolume 'team/d' and its claim have no label",
			source:  "dataVolume: {name: d}|source: {registry: {url: u}}|" + recommending, objects: []string{volume("labels: {}", "source: {registry: {url: u}}")}},
		{name: "DataVolume to come", why: "it is named as the user named it", source: "dataVolume: {name: d}", waiting: true,
			warning: "DataVolume and PersistentVolumeClaim 'team/d' do not exist"},
		{name: "template from elsewhere", why: "rights are asked for", source: templated + "source: {pvc: {name: p, namespace: golden}}",
			objects: []string{claim("p/golden", recommending)}, want: pin, asked: []string{"persistentvolumeclaims/golden/p"}},
		{name: "DataSource", why: "its own labels go first", source: templated + "sourceRef: {kind: DataSource, name: ds, namespace: golden}",
			objects: []string{strings.Replace(source("source: {}"), "golden}", "golden, "+recommending+"}", 1)}, want: pin,
			asked: []string{"datasources.cdi.kubevirt.io/golden/ds"}},
		{name: "DataSource of a claim", why: "then the labels of its source, in any namespace",
			source:  templated + "sourceRef: {kind: DataSource, name: ds, namespace: golden}",
			objects: []string{source("source: {pvc: {name: p, namespace: images}}"), claim("p/images", recommending)}, want: pin,
			asked: []string{"datasources.cdi.kubevirt.io/golden/ds", "persistentvolumeclaims/images/p"}},
		{name: "DataSource of a DataSource", why: "the image of an architecture, say",
			source: templated + "sourceRef: {kind: DataSource, name: ds, namespace: golden}",
			objects: []string{source("source: {dataSource: {name: next, namespace: images}}"), next("source: {pvc: {name: p, namespace: images}}"),
				claim("p/images", recommending)}, want: pin,
			asked: []string{"datasources.cdi.kubevirt.io/golden/ds", "datasources.cdi.kubevirt.io/images/next", "persistentvolumeclaims/images/p"}},
		{name: "DataSource of a DataSource of a DataSource", why: "CDI does not follow it either",
			source:  templated + "sourceRef: {kind: DataSource, name: ds, namespace: golden}",
			objects: []string{source("source: {dataSource: {name: next, namespace: images}}"), next("source: {dataSource: {name: ds, namespace: golden}}")},
			refused: true,
			asked:   []string{"datasources.cdi.kubevirt.io/golden/ds", "datasources.cdi.kubevirt.io/images/next"}},
		{name: "DataSource of nothing", why: "it can recommend nothing", source: templated + "sourceRef: {kind: DataSource, name: ds, namespace: golden}",
			objects: []string{source("source: {}")}, refused: true, asked: []string{"datasources.cdi.kubevirt.io/golden/ds"}},
		{name: "DataSource to come", why: "what it is likely to lead to is asked for now",
			source: templated + "sourceRef: {kind: DataSource, name: ds, namespace: golden}", waiting: true, warning: "DataSource 'golden/ds' does not exist",
			asked: []string{"datasources.cdi.kubevirt.io/golden/ds", "persistentvolumeclaims/golden/*", "volumesnapshots.snapshot.storage.k8s.io/golden/*",
				"datasources.cdi.kubevirt.io/golden/*"}},
		{name: "another kind of source", why: "no such kind has labels", source: templated + "sourceRef: {kind: Image, name: ds}", refused: true},
		{name: "instancetype to come", why: "as when it is named", source: "persistentVolumeClaim: {claimName: p}",
			objects: []string{claim("p/team", strings.Replace(recommending, ": s", ": other", 1))}, warning: "VirtualMachineClusterInstancetype 'other' does not exist"},
		{name: "unknown kind", why: "the warning names the label", source: "persistentVolumeClaim: {claimName: p}",
			objects: []string{claim("p/team", strings.Replace(recommending, ": s}", ": s, instancetype.kubevirt.io/default-instancetype-kind: flavor}", 1))},
			warning: "default-instancetype-kind"},
		{name: "no such volume", why: "a typing error, even under Ignore", source: "persistentVolumeClaim: {claimName: p}",
			policy: func(vm *v1.VirtualMachine) { ignoring(vm); vm.Spec.Instancetype.InferFromVolume = "rot" }, refused: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			vm := inferring(t, test.source)
			if test.policy != nil {
				test.policy(vm)
			}
			var asked []string
			rights := &Rights{MayRead: func(_ context.Context, s Source) (bool, error) {
				asked = append(asked, s.permissionKey())
				return true, nil
			}}
			resolution, err := Resolver{Cached: objects.New(scheme(t), append(parsed(t, test.objects...), live)...), Rights: rights}.VM(t.Context(), vm, nil)
			if test.waiting && !strings.Contains(test.warning, "have no label") { // KubeVirt does not wait
				resolver := Resolver{Cached: objects.New(scheme(t), append(parsed(t, test.objects...), live)...), InfersAtOnce: true}
				_, err := resolver.VM(t.Context(), vm, nil)
				check(t, test.why, err, "spec.instancetype.inferFromVolume", "KubeVirt infers when the VM is written")
			}
			refused := ""
			if test.refused {
				refused = "spec.instancetype.inferFromVolume"
			}
			check(t, test.why, err, refused, "")
			if resolution.Pins.Instancetype != test.want || resolution.Waiting != test.waiting {
				t.Errorf("%s: pin '%s', waiting %v; want '%s', %v", test.why, resolution.Pins.Instancetype, resolution.Waiting, test.want, test.waiting)
			}
			if got := strings.Join(resolution.Warnings, "\n"); !strings.Contains(got, test.warning) || got != "" && test.warning == "" {
				t.Errorf("%s: warnings '%s', want '%s'", test.why, got, test.warning)
			}
			if diff := cmp.Diff(test.asked, asked); diff != "" {
				t.Errorf("%s: rights (-want +got):\n%s", test.why, diff)
			}
		})
	}
}

// TestInferenceNeedsRights: without the right to read a source, the answer is the same whether it exists or not.
func TestInferenceNeedsRights(t *testing.T) {
	there, missing := claim("p/golden", recommending), claim("q/golden", recommending)
	for _, object := range []string{there, missing} {
		resolver := Resolver{Cached: objects.New(scheme(t), append(parsed(t, object), size("s", "1Gi", ""))...),
			Rights: &Rights{MayRead: func(context.Context, Source) (bool, error) { return false, nil }}}
		_, err := resolver.VM(t.Context(), inferring(t, "dataVolume: {name: d}|source: {pvc: {name: p, namespace: golden}}"), nil)
		check(t, "an inference reads with the rights of Kiln", err, "spec.instancetype.inferFromVolume", "")
	}
}

// TestRecordedRights: the controller reads what admission has recorded and nothing else.
func TestRecordedRights(t *testing.T) {
	rights := &Rights{MayRead: func(_ context.Context, s Source) (bool, error) { return s.Kind != "VolumeSnapshot", nil }}
	waiting := inferring(t, "dataVolume: {name: d}|sourceRef: {kind: DataSource, name: ds, namespace: golden}")
	if _, err := (Resolver{Cached: objects.New(scheme(t)), Rights: rights}).VM(t.Context(), waiting, nil); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(`["datasources.cdi.kubevirt.io/golden/*","datasources.cdi.kubevirt.io/golden/ds","persistentvolumeclaims/golden/*"]`,
		rights.Record()); diff != "" {
		t.Errorf("recorded (-want +got):\n%s", diff)
	}
	waiting.Annotations = map[string]string{v1alpha1.AnnotationInference: rights.Record()}
	for _, test := range []struct {
		name, source string
		allowed      bool
	}{{"beside the source", "{pvc: {name: p, namespace: golden}}", true}, {"elsewhere", "{pvc: {name: p, namespace: images}}", false},
		{"of another kind", "{snapshot: {name: p, namespace: golden}}", false}, {"in the guest's own namespace", "{pvc: {name: p, namespace: team}}", true}} {
		t.Run(test.name, func(t *testing.T) {
			found := append(parsed(t, claim("p/golden", recommending), claim("p/images", recommending), claim("p/team", recommending),
				"{apiVersion: snapshot.storage.k8s.io/v1, kind: VolumeSnapshot, metadata: {name: p, namespace: golden, "+recommending+"}}",
				"{apiVersion: cdi.kubevirt.io/v1beta1, kind: DataSource, metadata: {name: ds, namespace: golden}, spec: {source: "+test.source+"}}"), size("s", "1Gi", ""))
			resolution, err := Resolver{Cached: objects.New(scheme(t), found...), Rights: RecordedRights(waiting)}.VM(t.Context(), waiting, waiting)
			if test.allowed != (err == nil) || test.allowed != (resolution.Pins.Instancetype != "") {
				t.Errorf("pins %+v, %v; want allowed %v", resolution.Pins, err, test.allowed)
			}
		})
	}
}

func TestEffectiveVM(t *testing.T) {
	given := inferring(t, "persistentVolumeClaim: {claimName: p}", ignoring)
	if got := EffectiveVM(given, v1alpha1.Pins{Instancetype: v1alpha1.PinNone}); got.Spec.Instancetype != nil || got.Spec.Template.Spec.Domain.Memory == nil {
		t.Error("a volume that recommends nothing leaves the guest as it was written")
	}
	if got := EffectiveVM(given, v1alpha1.Pins{Instancetype: "s-1"}); got.Spec.Instancetype == nil || got.Spec.Template.Spec.Domain.Memory != nil {
		t.Error("the memory that was there in case of nothing conflicts with the size that was recommended")
	}
	if given.Spec.Instancetype == nil || given.Spec.Template.Spec.Domain.Memory == nil {
		t.Error("the VM itself was changed")
	}
}

// TestWhatAnInferenceRead: the objects are named in the order in which they were read, and in words that fit where they come from.
func TestWhatAnInferenceRead(t *testing.T) {
	image := "{apiVersion: cdi.kubevirt.io/v1beta1, kind: DataSource, metadata: {name: ds, namespace: golden}, " +
		"spec: {source: {pvc: {name: p, namespace: golden}}}}"
	copied := "dataVolume: {name: d}|sourceRef: {kind: DataSource, name: ds, namespace: golden}"
	for _, test := range []struct {
		why, source string
		objects     []string
		want        string
	}{
		{"a claim", "persistentVolumeClaim: {claimName: p}", []string{claim("p/team", recommending)},
			"PersistentVolumeClaim 'team/p' recommends VirtualMachineClusterInstancetype 's'"},
		{"of an image", copied, []string{image, claim("p/golden", recommending)},
			"DataSource 'golden/ds' leads to PersistentVolumeClaim 'golden/p', which recommends VirtualMachineClusterInstancetype 's'"},
		{"the template itself", "dataVolume: {name: d}|source: {http: {url: u}}|" + recommending, nil,
			"dataVolumeTemplate 'team/d' recommends VirtualMachineClusterInstancetype 's'"},
		{"an image to come", copied, nil, "spec.instancetype.inferFromVolume: DataSource 'golden/ds' is not among the files; the VM cannot start until"},
		{"a DataVolume to come", "dataVolume: {name: d}", nil,
			"spec.instancetype.inferFromVolume: DataVolume and PersistentVolumeClaim 'team/d' are not among the files; the VM cannot start until"},
	} {
		resolver := Resolver{Cached: objects.New(scheme(t), append(parsed(t, test.objects...), size("s", "1Gi", ""))...), OfFiles: true}
		answer, err := resolver.VM(t.Context(), inferring(t, test.source), nil)
		messages := strings.Join(answer.Warnings, "\n")
		for _, inferred := range answer.Inferred {
			messages += inferred.String()
			if inferred.Path.String() != "spec.instancetype.inferFromVolume" || len(inferred.Read) == 0 {
				t.Errorf("%s: %+v", test.why, inferred)
			}
		}
		if err != nil || !strings.HasPrefix(messages, test.want) {
			t.Errorf("%s: '%s', want '%s' (%v)", test.why, messages, test.want, err)
		}
	}
	_, err := Resolver{Cached: objects.New(scheme(t))}.VM(t.Context(), inferring(t, "dataVolume: {name: d}|sourceRef: {kind: datasources, name: ds}"), nil)
	if err == nil || !strings.Contains(err.Error(), "CDI knows no sourceRef of kind 'datasources', only 'DataSource'") {
		t.Errorf("a kind in lower case: %v", err)
	}
	mistyped := inferring(t, "persistentVolumeClaim: {claimName: p}", func(vm *v1.VirtualMachine) { vm.Spec.Instancetype.InferFromVolume = "rot" })
	_, err = Resolver{Cached: objects.New(scheme(t))}.VM(t.Context(), mistyped, nil)
	if err == nil || !strings.Contains(err.Error(), "must name a volume of spec.template.spec.volumes; did you mean 'root'?") {
		t.Errorf("a volume that is mistyped: %v", err)
	}
}
