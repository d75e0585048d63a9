package workbench

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const plain = `apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: web, namespace: shop}
spec:
  runStrategy: Always
  template:
    spec:
      domain:
        memory: {guest: 1Gi}
        devices: {disks: [{name: root, disk: {bus: virtio}}]}
      volumes: [{name: root, containerDisk: {image: "os:1"}}]
`

const profiles = `apiVersion: kilnvm.io/v1alpha1
kind: HostProfile
metadata: {name: rack}
spec: {nodeSelector: {matchLabels: {rack: '1'}}, cpu: {shares: 2048}}
---
apiVersion: kilnvm.io/v1alpha1
kind: HostProfile
metadata: {name: all}
spec: {cpu: {shares: 4096}}
`

// write writes a file of its own.
func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// loaded are the inputs of one file with these documents.
func loaded(t *testing.T, documents ...string) manifest.Inputs {
	t.Helper()
	in, err := manifest.Load(manifest.Files{Names: []string{write(t, "all.yaml", strings.Join(documents, "---\n"))}})
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// reviewed is the only guest of inputs.
func reviewed(t *testing.T, bench *Bench, in manifest.Inputs) Reviewed {
	t.Helper()
	all, err := bench.Review(t.Context(), in, nil)
	if err != nil {
		t.Fatal(err)
	}
	all.Objects = slices.DeleteFunc(all.Objects, func(r Reviewed) bool { return r.Guest == nil })
	if len(all.Objects) != 1 || all.Objects[0].Fault != nil || !all.Objects[0].Verdict.Allowed() {
		t.Fatalf("want one guest, got %+v", all.Objects)
	}
	return all.Objects[0]
}

// forbidding is a cluster whose user may read VMs, and none of the kinds that are named.
type forbidding struct {
	client.Reader
	kinds []string
}

func (f forbidding) refuses(object any) error {
	for _, kind := range f.kinds {
		_, hardware := object.(*v1alpha1.GuestHardware)
		_, list := object.(*v1alpha1.HostProfileList)
		_, configurations := object.(*v1.KubeVirtList)
		_, configuration := object.(*v1.KubeVirt)
		if hardware && kind == "GuestHardware" || list && kind == "HostProfile" || (configuration || configurations) && kind == "KubeVirt" {
			return apierrors.NewForbidden(schema.GroupResource{Resource: kind}, "", errors.New("not yours"))
		}
	}
	return nil
}

func (f forbidding) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if err := f.refuses(object); err != nil {
		return err
	}
	return f.Reader.Get(ctx, key, object, options...)
}

func (f forbidding) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if err := f.refuses(list); err != nil {
		return err
	}
	return f.Reader.List(ctx, list, options...)
}

// TestWarningsOnSettings: each setting that may not be read has one warning, with the answer that is found without it.
func TestWarningsOnSettings(t *testing.T) {
	t.Parallel()
	in := loaded(t, plain)
	in.Reader, in.OfCluster = forbidding{in.Reader, []string{"KubeVirt", "HostProfile"}}, true
	bench := &Bench{}
	all, err := bench.Review(t.Context(), in, nil)
	if err != nil || len(all.Warnings) != 1 || !strings.Contains(all.Warnings[0], "--config") {
		t.Fatalf("a review without the configuration: %v %q", err, all.Warnings)
	}
	rendered, err := bench.Render(t.Context(), all.Objects[0], Rendering{})
	if err != nil || len(rendered.Documents) != 1 || len(rendered.Warnings) != 1 || !strings.Contains(rendered.Warnings[0], "--profile") {
		t.Fatalf("a domain without the profiles: %v %q", err, rendered.Warnings)
	}
	again, err := bench.Review(t.Context(), in, nil)
	if err != nil || len(again.Warnings) > 0 {
		t.Errorf("the configuration has a second warning: %v %q", err, again.Warnings)
	}
	if rendered, err = bench.Render(t.Context(), all.Objects[0], Rendering{}); err != nil || len(rendered.Warnings) > 0 {
		t.Errorf("the profiles have a second warning: %v %q", err, rendered.Warnings)
	}
	both, err := (&Bench{}).ReadSettings(t.Context(), in)
	if err != nil || len(both) != 2 {
		t.Errorf("both at once: %v %q", err, both)
	}
}

// TestHardwareThatMayNotBeRead: a guest is explained without its hardware, and not rendered, since it might get other hardware than it has.
func TestHardwareThatMayNotBeRead(t *testing.T) {
	t.Parallel()
	in := loaded(t, plain)
	in.Reader = forbidding{in.Reader, []string{"GuestHardware"}}
	bench := &Bench{}
	r := reviewed(t, bench, in)
	if explained, err := r.Explain(t.Context()); err != nil || len(explained.Fields) == 0 {
		t.Errorf("explained: %v, %d fields", err, len(explained.Fields))
	}
	if stages, err := r.Stages(); err != nil || stages[0].Name != StageAdmitted || stages[len(stages)-1].Name != StageDefaults {
		t.Errorf("stages: %v %v", err, stages)
	}
	if _, err := bench.Render(t.Context(), r, Rendering{}); err == nil || !apierrors.IsForbidden(err) {
		t.Errorf("rendered with unknown hardware: %v", err)
	}
}

// TestProfilesThatSelectNodes: without a host the profiles that select nodes are named, and do not count; the bench may also ignore all.
func TestProfilesThatSelectNodes(t *testing.T) {
	t.Parallel()
	bench := &Bench{}
	r := reviewed(t, bench, loaded(t, plain, profiles))
	rendered, err := bench.Render(t.Context(), r, Rendering{})
	if err != nil || !cmp.Equal(rendered.ByNode, []string{"rack"}) || !strings.Contains(rendered.Documents[0].XML, "<shares>4096</shares>") {
		t.Errorf("without a host: %v %q\n%+v", err, rendered.ByNode, rendered.Documents)
	}
	host := write(t, "host.yaml", hostKind+"{architecture: amd64, virtTypes: [qemu], emulators: {amd64: /usr/bin/qemu}, labels: {rack: '2'}}")
	if rendered, err = bench.Render(t.Context(), r, Rendering{Placing: Placing{Host: host}}); err != nil || len(rendered.ByNode) > 0 {
		t.Errorf("on a host with other labels: %v %q", err, rendered.ByNode)
	}
	bench.IgnoreProfiles()
	if rendered, err = bench.Render(t.Context(), r, Rendering{}); err != nil || len(rendered.ByNode) > 0 ||
		strings.Contains(rendered.Documents[0].XML, "<shares>") {
		t.Errorf("without profiles: %v %q\n%+v", err, rendered.ByNode, rendered.Documents)
	}
}

// TestKindsThatAreSkipped: kinds of KubeVirt that are not served are values of their own, and rejections of a strict bench; CDI's are never refused.
func TestKindsThatAreSkipped(t *testing.T) {
	t.Parallel()
	in := loaded(t, plain, "apiVersion: export.kubevirt.io/v1beta1\nkind: VirtualMachineExport\nmetadata: {name: ten, namespace: shop}\n",
		"apiVersion: cdi.kubevirt.io/v1beta1\nkind: DataVolume\nmetadata: {name: disk, namespace: shop}\n",
		"apiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: shop}\n")
	for _, test := range []struct {
		strict           bool
		objects, skipped []string
	}{
		{false, []string{"VirtualMachine shop/web"}, []string{"VirtualMachineExport shop/ten", "DataVolume shop/disk"}},
		{true, []string{"VirtualMachine shop/web", "VirtualMachineExport shop/ten"}, []string{"DataVolume shop/disk"}},
	} {
		all, err := (&Bench{Strict: test.strict}).Review(t.Context(), in, nil)
		var objects, skipped []string
		for _, r := range all.Objects {
			objects = append(objects, r.Name())
			if r.Verdict.Allowed() != (r.GetKind() == "VirtualMachine") {
				t.Errorf("strict %v: the verdict on %s is %+v", test.strict, r.Name(), r.Verdict)
			}
		}
		for _, s := range all.Skipped {
			skipped = append(skipped, s.Name())
		}
		if diff := cmp.Diff(test.objects, objects) + cmp.Diff(test.skipped, skipped); err != nil || diff != "" {
			t.Errorf("strict %v: %v (-want +got):\n%s", test.strict, err, diff)
		}
	}
}

// hostKind begins the file of a host. Its spec follows.
