package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/internal/revision"
	"github.com/kilnvm/kiln/pkg/config"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// kubevirts is the kind of KubeVirt's own installation, as far as Kiln reads it.
const kubevirts = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: kubevirts.kubevirt.io, annotations: {api-approved.kubernetes.io: unapproved}}
spec:
  group: kubevirt.io
  scope: Namespaced
  names: {kind: KubeVirt, plural: kubevirts, singular: kubevirt}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`

// administered applies the objects of administrators in these tests. They have no effect on other tests, whose webhook and launchers have a
// configuration file, and whose VMIs lack the label.
func administered(s space) {
	s.Helper()
	s.must(s.kubectl(kubevirts, "apply", "--server-side", "-f", "-"))
	s.established("kubevirts.kubevirt.io")
	s.create(`{apiVersion: kubevirt.io/v1, kind: KubeVirt, metadata: {name: kubevirt}, spec: {configuration: {cpuModel: Nehalem, ` +
		`smbios: {manufacturer: Forge}}}}`)
	s.create(`{apiVersion: kilnvm.io/v1alpha1, kind: HostProfile, metadata: {name: ` + s.name + `}, spec: {vmiSelector: {matchLabels: {of: ` + s.name +
		`}}, cpu: {shares: 2048}}}`)
	s.Cleanup(func() { s.kubectlAfter("delete", "hostprofile/"+s.name, "kubevirt/kubevirt", "--wait=false") })
}

// TestCommandsReadTheCluster: a command about an object of the cluster reads the configuration and the host profiles of the cluster, too. A user who may
// not read them gets an answer without them, and a line that says it.
func TestCommandsReadTheCluster(t *testing.T) {
	s := newSpace(t)
	administered(s)
	s.create(vm("web", "template:\n    spec:", "template:\n    metadata: {labels: {of: "+s.name+"}}\n    spec:"))
	s.create(`{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstance, metadata: {name: bare}, spec: {nodeSelector: {machine: none}, ` +
		`volumes: [{name: d, hostDisk: {path: /d.img, type: Disk}}], domain: {memory: {guest: 64Mi}, devices: {disks: [{name: d}]}}}}`)
	s.eventually("the VM has its pins", func() bool {
		return strings.Contains(s.get("vm", "web").GetAnnotations()[pinsAnnotation], "configuration")
	})
	// What Kubernetes' role 'view' has of it, once it is aggregated.
	s.must(s.kubectl("", "create", "rolebinding", "vera", "--clusterrole=kiln-view", "--user=vera"))
	s.must(s.kubectl("", "create", "role", "revisions", "--verb=get,list", "--resource=controllerrevisions.apps"))
	s.must(s.kubectl("", "create", "rolebinding", "revisions", "--role=revisions", "--user=vera"))
	const configuration, profiles = "Warning: the cluster's configuration cannot be read", "Warning: the cluster's HostProfiles cannot be read"
	file := filepath.Join(shared.Dir, "configuration.yaml") // the webhook's
	for _, c := range []struct {
		args, says, silent []string
		status             int
	}{
		{[]string{"render", "vm/web"}, []string{"<shares>2048</shares>", "Forge"}, []string{"Warning"}, 0},
		{[]string{"render", "vm/web", "--config", file}, []string{"<shares>2048</shares>"}, []string{"Warning", "Forge"}, 0},
		{[]string{"render", "vm/web", "--as=vera"}, []string{"<domain"}, []string{"shares", "Forge", "Warning"}, 0},
		{[]string{"render", "vm/web", "--as=vera", "--config", file}, []string{"<domain"}, []string{"Warning"}, 0},
		{[]string{"states", "vm/web", "--as=vera"}, []string{"1 template"}, []string{"Warning"}, 0},
		{[]string{"diff", "vm/web", "vm/web", "--domain"}, []string{"compatible"}, []string{"Warning"}, 0},
		{[]string{"diff", "vm/web", "vm/web", "--as=vera"}, []string{"compatible", configuration, profiles}, nil, 0},
		{[]string{"explain", "vm/web"}, []string{"instancetype small@"}, []string{"Warning"}, 0},
		{[]string{"explain", "vm/web", "--as=vera"}, []string{"instancetype small@", configuration}, []string{profiles}, 0},
		{[]string{"expand", "vm/web", "--as=vera"}, []string{"model: host-model", configuration}, nil, 0},
		{[]string{"validate", "vmi/bare"}, []string{"/bare is rejected", "spec.volumes[0].hostDisk"}, []string{"Warning"}, 1}, // the object names no gate
		{[]string{"validate", "vmi/bare", "--config", file}, []string{"is accepted", "no pod starts this guest: volumes[0].hostDisk"}, []string{"cannot be read"}, 0},
		{[]string{"validate", "vm/web", "--as=vera"}, []string{"is accepted", configuration}, nil, 0},
		{[]string{"revisions"}, []string{"clusterconfiguration/configuration outdated vm/web"}, []string{"Warning"}, 0},
		{[]string{"revisions", "--config", file}, []string{"clusterconfiguration/configuration current vm/web"}, []string{"Warning"}, 0},
		{[]string{"revisions", "--as=vera"}, []string{"clusterconfiguration/configuration unknown vm/web", "virtualmachineclusterinstancetype/small"},
			[]string{"Warning"}, 0},
	} {
		got := s.kiln(c.args...)
		text := strings.Join(strings.Fields(got.stdout+"\n"+got.stderr), " ") // however wide the columns are
		for _, want := range c.says {
			if s.status(got) != c.status || strings.Count(text, want) == 0 || strings.HasPrefix(want, "Warning") && strings.Count(text, want) != 1 {
				t.Errorf("%q: status %d, want %d; no '%s', or more than one, in\n%s", c.args, s.status(got), c.status, want, text)
			}
		}
		for _, no := range c.silent {
			if strings.Contains(text, no) {
				t.Errorf("%q: '%s' in\n%s", c.args, no, text)
			}
		}
	}
}

// TestRepinToAnotherConfiguration: a dry run tells what a new pin changes, although no revision holds it yet.
func TestRepinToAnotherConfiguration(t *testing.T) {
	s := newSpace(t)
	was := config.Default().Defaults
	was.CPUModel = "Nehalem"
	object, err := config.Snapshot(was)
	if err != nil {
		t.Fatal(err)
	}
	draft, err := revision.NewDraft(s.name, &unstructured.Unstructured{Object: object})
	if err != nil {
		t.Fatal(err)
	}
	stored := draft.Object()
	stored.APIVersion, stored.Kind = "apps/v1", "ControllerRevision"
	manifest, err := json.Marshal(stored)
	if err != nil {
		t.Fatal(err)
	}
	s.must(s.kubectl(string(manifest), "create", "-f", "-", writer))
	pinned := vm("web", "metadata: {name: web}", `metadata: {name: web, annotations: {`+pinsAnnotation+`: '{"presets":[],"configuration":"`+draft.Name+`"}'}}`)
	s.eventually("the webhook has seen the revision, and the pin is kept", func() bool {
		return s.must(s.kubectl(pinned, "create", "--dry-run=server", "-f", "-")).stderr == ""
	})
	s.create(pinned)
	file := filepath.Join(shared.Dir, "configuration.yaml")
	got := s.kiln("repin", "vm/web", "--configuration", "--dry-run", "--config", file)
	for _, want := range []string{"configuration: " + draft.Name + " -> configuration-", "at the next start: breaks the guest's hardware",
		"-      model: Nehalem", "+      model: host-model"} {
		if !strings.Contains(got.stdout, want) {
			t.Errorf("no '%s' in\n%s%s", want, got.stdout, got.stderr)
		}
	}
	if strings.Contains(got.stderr, "Warning") {
		t.Errorf("warnings:\n%s", got.stderr)
	}
	other := filepath.Join(t.TempDir(), "other.yaml")
	if err := os.WriteFile(other, []byte("cpuModel: Penryn\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got = s.kiln("repin", "vm/web", "--configuration", "--dry-run", "--config", other)
	if !strings.Contains(got.stderr, "Warning: the webhook has another configuration") {
		t.Errorf("another configuration than the webhook's:\n%s%s", got.stdout, got.stderr)
	}
}

// shortened returns the name of a revision as 'explain' prints it for people: with the first eight characters of its digest.
func shortened(revision string) string {
	const digest, shown = 26, 8
	return revision[:max(0, len(revision)-digest+shown)]
}

// TestExplainStoredGuests: the VMI of a VM is explained by its VM. For a bare VMI a note says that it cannot be explained.
func TestExplainStoredGuests(t *testing.T) {
	s := newSpace(t)
	s.create(vm("web", running...))
	s.create(`{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstance, metadata: {name: bare}, spec: {nodeSelector: {machine: none}, ` +
		`domain: {memory: {guest: 64Mi}, devices: {}}}}`)
	s.eventually("the VM has its VMI", func() bool { return s.exists("vmi", "web") })
	says := func(object string, wanted ...string) {
		t.Helper()
		got := strings.Join(strings.Fields(s.must(s.kiln("explain", object)).stdout), " ")
		for _, want := range wanted {
			if !strings.Contains(got, want) {
				t.Errorf("%s: no '%s' in\n%s", object, want, got)
			}
		}
		if strings.Contains(got, "note:") != (len(wanted) > 0 && strings.HasPrefix(wanted[len(wanted)-1], "note:")) {
			t.Errorf("%s: notes in\n%s", object, got)
		}
	}
	revision := shortened(pins(t, s.get("vm", "web"))["instancetype"])
	disk, size := `disk: bus: "virtio" preference linux.sample@`, `memory: guest: "512Mi" instancetype small@`+revision
	says("vm/web", disk, size, `architecture: "amd64" default (architecture)`)
	says("vmi/web", disk, size, `architecture: "amd64" default (architecture)`, `emptyDisk: capacity: "1Gi" user`, `default (identity)`)
	says("vmi/bare", `guest: "64Mi" user`, `architecture: "amd64" user`, "note: no VM of this VMI could be read")
	s.must(s.kubectl("", "patch", "vm", "web", "--type=merge", "-p", `{"spec":{"template":{"spec":{"hostname":"other","nodeSelector":{"machine":"nowhere"}}}}}`))
	says("vmi/web", disk, size, `"none" elsewhere`, "note: 'elsewhere': the VM as it is now does not set the field")
}

// TestConditionNamesChangedProfiles: a condition of a VMI says that the HostProfiles of its host have changed since its start.
func TestConditionNamesChangedProfiles(t *testing.T) {
	s := newSpace(t)
	m := s.startMachine()
	profile := func(spec string) string {
		return "{apiVersion: kilnvm.io/v1alpha1, kind: HostProfile, metadata: {name: " + s.name + "}, spec: {vmiSelector: {matchLabels: {of: " + s.name +
			"}}, nodeSelector: {matchLabels: {machine: " + m.name + "}}, " + spec + "}}"
	}
	s.Cleanup(func() { s.kubectlAfter("delete", "hostprofile/"+s.name, "--wait=false", "--ignore-not-found") })
	s.must(s.kubectl(profile("lifecycle: {onCrash: Preserve}"), "apply", "-f", "-"))
	guest := strings.Replace(vm("demo", running...), "nodeSelector: {machine: none}",
		"terminationGracePeriodSeconds: 0\n      nodeSelector: {machine: "+m.name+"}", 1)
	guest = strings.Replace(guest, "template:\n    spec:", "template:\n    metadata: {labels: {of: "+s.name+"}}\n    spec:", 1)
	s.create(guest)
	s.eventually("the guest runs", func() bool {
		return s.read("vmi", "demo", "{.status.phase}").stdout == "Running"
	})
	changed := func() string {
		return s.must(s.read("vmi", "demo", `{.status.conditions[?(@.type=="HostPolicyChanged")].message}`)).stdout
	}
	if got := changed(); got != "" {
		t.Errorf("nothing has changed, and the condition says '%s'", got)
	}
	s.must(s.kubectl(profile("lifecycle: {onCrash: Destroy}, balloon: {statsPeriodSeconds: 5}"), "apply", "-f", "-"))
	s.eventually("the condition names what has changed", func() bool {
		return strings.HasSuffix(changed(), "the next start will apply changes in: balloon.statsPeriodSeconds, lifecycle.onCrash")
	})
	s.must(s.kubectl("", "delete", "vmi", "demo", "--wait=false")) // it is started again
	s.eventually("the next guest runs by them", func() bool {
		a := s.read("vmi", "demo", "{.status.phase} {.metadata.deletionTimestamp}")
		return a.stdout == "Running " && changed() == ""
	})
}
