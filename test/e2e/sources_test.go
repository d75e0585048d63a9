package e2e

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
)

// imported are the kinds of CDI and of the snapshot controller, which need not run: Kiln reads labels and what refers to what.
var imported = []struct{ group, version, kind, plural string }{
	{"cdi.kubevirt.io", "v1beta1", "DataVolume", "datavolumes"},
	{"cdi.kubevirt.io", "v1beta1", "DataSource", "datasources"},
	{"snapshot.storage.k8s.io", "v1", "VolumeSnapshot", "volumesnapshots"},
}

func serveImages(s space) {
	s.Helper()
	for _, k := range imported {
		s.must(s.kubectl(fmt.Sprintf(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[1]s.%[2]s, annotations: {api-approved.kubernetes.io: unapproved}}
spec:
  group: %[2]s
  scope: Namespaced
  names: {kind: %[3]s, plural: %[1]s, singular: %[4]s}
  versions: [{name: %[5]s, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`, k.plural, k.group, k.kind, strings.ToLower(k.kind), k.version), "apply", "--server-side", "-f", "-"))
		s.established(k.plural + "." + k.group)
	}
}

// recommends are the labels of an image for which a small machine with Linux is meant.
const recommends = "labels: {instancetype.kubevirt.io/default-instancetype: small, instancetype.kubevirt.io/default-preference: linux.sample}"

// TestInferenceFromImages walks what a volume can be made of, in a namespace where somebody with few rights may read nothing at first.
func TestInferenceFromImages(t *testing.T) {
	s := newSpace(t)
	serveImages(s)
	golden := s.name + "-golden"
	s.must(s.kubectl("", "create", "namespace", golden))
	t.Cleanup(func() { s.kubectlAfter("delete", "namespace", golden, "--wait=false") })
	s.must(s.kubectl("", "create", "rolebinding", "ann", "--clusterrole=kiln-edit", "--user=ann-"+golden))
	namespace := func(metadata string) string {
		if strings.Contains(metadata, golden) {
			return golden
		}
		return s.name
	}
	object := func(group, kind, metadata, spec string) {
		t.Helper()
		s.must(s.kubectl(fmt.Sprintf("{apiVersion: %s, kind: %s, metadata: {%s}, spec: {%s}}", group, kind, metadata, spec), "create", "-n",
			namespace(metadata), "-f", "-"))
	}
	const cdi, snapshots = "cdi.kubevirt.io/v1beta1", "snapshot.storage.k8s.io/v1"
	at := func(name string) string { return "name: " + name + ", namespace: " + golden }
	object("v1", "PersistentVolumeClaim", at("image")+", "+recommends, "accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}")
	object(snapshots, "VolumeSnapshot", at("image")+", "+recommends, "source: {persistentVolumeClaimName: image}")
	object(cdi, "DataSource", at("labelled")+", "+recommends, "source: {}")
	object(cdi, "DataSource", at("of-claim"), "source: {pvc: {"+at("image")+"}}")
	object(cdi, "DataSource", at("of-snapshot"), "source: {snapshot: {"+at("image")+"}}")
	object(cdi, "DataSource", at("of-another"), "source: {dataSource: {"+at("of-claim")+"}}")
	object(cdi, "DataVolume", "name: labelled, "+recommends, "source: {http: {url: u}}")
	object(cdi, "DataVolume", "name: copy", "sourceRef: {kind: DataSource, "+at("of-snapshot")+"}")

	role := map[string]bool{}
	for _, c := range []struct {
		name, volume, template string
		reads                  []string // in the other namespace, in the order in which they are asked for: group and resource, and name
	}{
		{name: "own-volume", volume: "labelled"},
		{name: "volume", volume: "copy", reads: []string{"datasources.cdi.kubevirt.io of-snapshot", "volumesnapshots.snapshot.storage.k8s.io image"}},
		{name: "claim", template: "source: {pvc: {" + at("image") + "}}", reads: []string{"persistentvolumeclaims image"}},
		{name: "snapshot", template: "source: {snapshot: {" + at("image") + "}}", reads: []string{"volumesnapshots.snapshot.storage.k8s.io image"}},
		{name: "source", template: "sourceRef: {kind: DataSource, " + at("labelled") + "}", reads: []string{"datasources.cdi.kubevirt.io labelled"}},
		{name: "source-of-claim", template: "sourceRef: {kind: DataSource, " + at("of-claim") + "}",
			reads: []string{"datasources.cdi.kubevirt.io of-claim", "persistentvolumeclaims image"}},
		{name: "source-of-source", template: "sourceRef: {kind: DataSource, " + at("of-another") + "}",
			reads: []string{"datasources.cdi.kubevirt.io of-another", "datasources.cdi.kubevirt.io of-claim", "persistentvolumeclaims image"}},
	} {
		changes := append(inferred, "emptyDisk: {capacity: 1Gi}", "dataVolume: {name: "+cmp.Or(c.volume, "made")+"}")
		if c.template != "" {
			changes = append(changes, "  template:",
				"  dataVolumeTemplates: [{metadata: {name: made}, spec: {"+c.template+", storage: {resources: {requests: {storage: 1Gi}}}}}]\n  template:")
		}
		manifest := vm(c.name, changes...)
		create := func(args ...string) answer {
			return s.kubectl(manifest, append([]string{"create", "--as=ann-" + golden, "-f", "-"}, args...)...)
		}
		for i, read := range c.reads { // refused until the last of them may be read
			resource, name, _ := strings.Cut(read, " ")
			if role[read] {
				continue
			}
			a := create("--dry-run=server")
			kind := strings.TrimSuffix(strings.SplitN(resource, ".", 2)[0], "s")
			if a.err == nil || !strings.Contains(a.stderr, "spec.instancetype.inferFromVolume: Forbidden") ||
				!strings.Contains(strings.ToLower(a.stderr), kind+" '"+golden+"/"+name+"'") {
				t.Errorf("%s without the right to %s: %v %s", c.name, read, a.err, a.stderr)
			}
			role[read] = true
			grant := fmt.Sprintf("r%d-%s", i, c.name)
			s.must(s.kubectl("", "create", "role", grant, "-n", golden, "--verb=get", "--resource="+resource, "--resource-name="+name))
			s.must(s.kubectl("", "create", "rolebinding", grant, "-n", golden, "--role="+grant, "--user=ann-"+golden))
		}
		s.eventually("with the rights "+c.name+" is admitted", func() bool { return create("--dry-run=server").err == nil })
		s.must(create())
		got := s.get("vm", c.name)
		if all := pins(t, got); !strings.HasPrefix(all["instancetype"], "small-") || !strings.HasPrefix(all["preference"], "linux.sample-") {
			t.Errorf("%s is pinned to %v, want what the image recommends", c.name, all)
		}
		if field(got, "spec", "instancetype", "name") != nil {
			t.Errorf("%s: the inference has written the spec", c.name)
		}
	}
}
