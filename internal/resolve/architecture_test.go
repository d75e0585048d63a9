package resolve

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/objects"
	v1 "kubevirt.io/api/core/v1"
	cdi "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/yaml"
)

func TestArchitecture(t *testing.T) {
	const ref = "dataVolumeTemplates: [{metadata: {name: d}, spec: {sourceRef: {kind: datasource, name: ds}}}]"
	source := func(metadata, spec string) string {
		return "{apiVersion: cdi.kubevirt.io/v1beta1, kind: DataSource, metadata: {" + metadata + "}, spec: {source: {" + spec + "}}}"
	}
	labelled := func(name, architecture string) string {
		return source("name: "+name+", labels: {template.kubevirt.io/architecture: "+architecture+"}", "pvc: {name: p}")
	}
	for _, test := range []struct {
		name, why, spec string
		annotation      string
		objects         []string
		denied          bool
		want            string
	}{
		{name: "labelled", why: "the label of the image; the kind is compared without case", spec: ref, objects: []string{labelled("ds, namespace: team", "arm64")},
			want: "arm64"},
		{name: "unlabelled", spec: ref, objects: []string{source("name: ds, namespace: team", "pvc: {name: p}")}},
		{name: "unknown architecture", why: "no machine of that kind can be made", spec: ref, objects: []string{labelled("ds, namespace: team", "riscv")}},
		{name: "one step", why: "a DataSource may stand for another", spec: ref,
			objects: []string{source("name: ds, namespace: team", "dataSource: {name: ds2, namespace: team}"), labelled("ds2, namespace: team", "s390x")},
			want:    "s390x"},
		{name: "absent", why: "the cluster's default remains", spec: ref},
		{name: "the second image", why: "the first has no label",
			spec: "dataVolumeTemplates: [{metadata: {name: a}, spec: {source: {http: {url: u}}}}, {metadata: {name: d}, spec: {sourceRef: {kind: DataSource, " +
				"name: ds, namespace: golden}}}]",
			objects: []string{labelled("ds, namespace: golden", "arm64")}, want: "arm64"},
		{name: "not permitted", why: "the label of a DataSource that the author may not read has no effect", denied: true,
			spec:    "dataVolumeTemplates: [{metadata: {name: d}, spec: {sourceRef: {kind: DataSource, name: ds, namespace: golden}}}]",
			objects: []string{labelled("ds, namespace: golden", "arm64")}},
		{name: "the user's word", spec: ref + "\ntemplate: {spec: {architecture: amd64}}", annotation: "arm64",
			objects: []string{labelled("ds, namespace: team", "arm64")}},
		{name: "found before", why: "a label that changes does not change the VMI", spec: ref, annotation: "s390x",
			objects: []string{labelled("ds, namespace: team", "arm64")}, want: "s390x"},
	} {
		t.Run(test.name, func(t *testing.T) {
			made := vm()
			made.Spec = v1.VirtualMachineSpec{Template: &v1.VirtualMachineInstanceTemplateSpec{}}
			if err := yaml.Unmarshal([]byte(test.spec), &made.Spec); err != nil {
				t.Fatal(err)
			}
			if test.annotation != "" {
				made.Annotations = map[string]string{v1alpha1.AnnotationArchitecture: test.annotation}
			}
			rights := &Rights{MayRead: func(context.Context, Source) (bool, error) { return !test.denied, nil }}
			resolution, err := Resolver{Cached: objects.New(scheme(t), parsed(t, test.objects...)...), Rights: rights}.VM(t.Context(), made, nil)
			if err != nil || resolution.Set.Architecture != test.want {
				t.Errorf("%s: got '%s', want '%s', %v", test.why, resolution.Set.Architecture, test.want, err)
			}
		})
	}
}

// However many images a VM copies, one right is checked for each namespace, and none after the first refusal.
func TestQuestionsAboutImages(t *testing.T) {
	const each = 64
	type image struct{ namespace, name, next string }
	source := func(i image) string {
		at := "{pvc: {name: p}}"
		if i.next != "" {
			at = "{dataSource: {name: " + i.next + ", namespace: golden}}"
		}
		return fmt.Sprintf("{apiVersion: cdi.kubevirt.io/v1beta1, kind: DataSource, metadata: {name: %s, namespace: %s}, spec: {source: %s}}", i.name, i.namespace,
			at)
	}
	for _, test := range []struct {
		name, why string
		image     func(int) image
		stored    bool
		may       func(Source) bool
		asked     int
		last      string
	}{
		{name: "one namespace", why: "the right to read all of them is checked", asked: 1, last: "*", stored: true,
			image: func(i int) image { return image{"golden", fmt.Sprint("ds", i), ""} }},
		{name: "one image", why: "the right to read that one is checked", asked: 1, last: "ds", stored: true,
			image: func(int) image { return image{"golden", "ds", ""} }},
		{name: "images to come", why: "nothing waits for an architecture", asked: 1, last: "*",
			image: func(i int) image { return image{"golden", fmt.Sprint("ds", i), ""} }},
		{name: "a namespace each", asked: each, last: "ds63", stored: true,
			image: func(i int) image { return image{fmt.Sprint("ns", i), fmt.Sprint("ds", i), ""} }},
		{name: "refused", why: "one refusal is enough", asked: 1, last: "ds0", stored: true, may: func(Source) bool { return false },
			image: func(i int) image { return image{fmt.Sprint("ns", i), fmt.Sprint("ds", i), ""} }},
		{name: "own images that stand for others", why: "asked by name first, then for all", asked: 2, last: "*", stored: true,
			image: func(i int) image { return image{"team", fmt.Sprint("ds", i), fmt.Sprint("other", i)} }},
		{name: "own images", why: "sources of the VM's own namespace need no right", stored: true,
			image: func(i int) image { return image{"team", fmt.Sprint("ds", i), ""} }},
	} {
		t.Run(test.name, func(t *testing.T) {
			made, stored := vm(), []string{}
			made.Spec = v1.VirtualMachineSpec{Template: &v1.VirtualMachineInstanceTemplateSpec{}}
			for i := range each {
				at := test.image(i)
				ref := &cdi.DataVolumeSourceRef{Kind: "DataSource", Name: at.name, Namespace: &at.namespace}
				made.Spec.DataVolumeTemplates = append(made.Spec.DataVolumeTemplates, v1.DataVolumeTemplateSpec{Spec: cdi.DataVolumeSpec{SourceRef: ref}})
				if document := source(at); test.stored && !slices.Contains(stored, document) {
					stored = append(stored, document)
				}
			}
			var asked []string
			rights := &Rights{MayRead: func(_ context.Context, s Source) (bool, error) {
				asked = append(asked, s.Name)
				return test.may == nil || test.may(s), nil
			}}
			_, err := Resolver{Cached: objects.New(scheme(t), parsed(t, stored...)...), Rights: rights}.VM(t.Context(), made, nil)
			if err != nil || len(asked) != test.asked || test.asked > 0 && asked[len(asked)-1] != test.last {
				t.Errorf("%s: asked about %d, %v: %v", test.why, len(asked), asked, err)
			}
		})
	}
}
