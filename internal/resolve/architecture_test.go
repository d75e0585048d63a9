package resolve

import (
	"context"
	"testing"

	"github.com/kilnvm/kiln/pkg/pipeline"
	v1 "kubevirt.io/api/core/v1"
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
		{name: "labelled", why: "the image tells; the kind is compared without case", spec: ref, objects: []string{labelled("ds, namespace: team", "arm64")}, want: "arm64"},
		{name: "unlabelled", spec: ref, objects: []string{source("name: ds, namespace: team", "pvc: {name: p}")}},
		{name: "unknown architecture", why: "no machine of that kind can be made", spec: ref, objects: []string{labelled("ds, namespace: team", "riscv")}},
		{name: "one step", why: "a DataSource may stand for another", spec: ref, objects: []string{source("name: ds, namespace: team", "dataSource: {name: ds2, namespace: team}"), labelled("ds2, namespace: team", "s390x")}, want: "s390x"},
		{name: "absent", why: "the cluster's default remains", spec: ref},
		{name: "the second image", why: "the first tells nothing", spec: "dataVolumeTemplates: [{metadata: {name: a}, spec: {source: {http: {url: u}}}}, {metadata: {name: d}, spec: {sourceRef: {kind: DataSource, name: ds, namespace: golden}}}]",
			objects: []string{labelled("ds, namespace: golden", "arm64")}, want: "arm64"},
		{name: "not permitted", why: "what its owner may not read is not told", denied: true, spec: "dataVolumeTemplates: [{metadata: {name: d}, spec: {sourceRef: {kind: DataSource, name: ds, namespace: golden}}}]",
			objects: []string{labelled("ds, namespace: golden", "arm64")}},
		{name: "the user's word", spec: ref + "\ntemplate: {spec: {architecture: amd64}}", annotation: "arm64", objects: []string{labelled("ds, namespace: team", "arm64")}},
		{name: "found before", why: "a label that changes does not change the guest", spec: ref, annotation: "s390x", objects: []string{labelled("ds, namespace: team", "arm64")}, want: "s390x"},
	} {
		t.Run(test.name, func(t *testing.T) {
			made := vm()
			made.Spec = v1.VirtualMachineSpec{Template: &v1.VirtualMachineInstanceTemplateSpec{}}
			if err := yaml.Unmarshal([]byte(test.spec), &made.Spec); err != nil {
				t.Fatal(err)
			}
			if test.annotation != "" {
				made.Annotations = map[string]string{pipeline.AnnotationArchitecture: test.annotation}
			}
			rights := &Rights{May: func(context.Context, Source) (bool, error) { return !test.denied, nil }}
			answer, err := Resolver{Cached: NewFiles(scheme(t), objects(t, test.objects...)...), Rights: rights}.VM(t.Context(), made, nil)
			if err != nil || answer.Set.Architecture != test.want {
				t.Errorf("%s: got '%s', want '%s', %v", test.why, answer.Set.Architecture, test.want, err)
			}
		})
	}
}
