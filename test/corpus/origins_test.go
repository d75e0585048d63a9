package corpus

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/instancetype"
	"github.com/kilnvm/kiln/pkg/profile"
	"github.com/kilnvm/kiln/test/changes"
	"k8s.io/apimachinery/pkg/runtime"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
)

// sparse leaves open what preferences can fill, and has a device of each kind that they speak of.
const sparse = `{"metadata": {"name": "guest", "namespace": "default"}, "spec": {"runStrategy": "Always", "template": {
  "metadata": {"labels": {"os": "any"}},
  "spec": {
    "domain": {"devices": {
      "disks": [{"name": "a"}, {"name": "b", "disk": {"bus": "virtio"}}, {"name": "c", "cdrom": {}}, {"name": "d", "lun": {}}],
      "interfaces": [{"name": "default", "masquerade": {}}], "inputs": [{"name": "tablet"}], "sound": {"name": "audio"},
      "gpus": [{"name": "gpu", "deviceName": "vendor.com/gpu"}]}},
    "networks": [{"name": "default", "pod": {}}],
    "volumes": [{"name": "a", "emptyDisk": {"capacity": "1Gi"}}, {"name": "b", "emptyDisk": {"capacity": "1Gi"}},
      {"name": "c", "emptyDisk": {"capacity": "1Gi"}}, {"name": "d", "persistentVolumeClaim": {"claimName": "d"}}]}}}}`

// TestMessagesNameTheOrigin: a message about a value that an instancetype, a preference, a preset or a profile has put into a VM names that object.
func TestMessagesNameTheOrigin(t *testing.T) {
	t.Parallel()
	n := attributed{t: t, seen: map[string]bool{}}
	var vm any
	if err := unmarshal([]byte(sparse), &vm); err != nil {
		t.Fatal(err)
	}
	size := v1beta1.VirtualMachineInstancetypeSpec{CPU: v1beta1.CPUInstancetype{Guest: 4}, Memory: v1beta1.MemoryInstancetype{Guest: *gibibyte()}}
	of := func(size *v1beta1.VirtualMachineInstancetypeSpec, taste *v1beta1.VirtualMachinePreferenceSpec) admit.Input {
		in := admit.Input{Cluster: generous()}
		in.Set.Instancetype = &instancetype.Instancetype{Source: instancetype.Source{Kind: instancetype.Kinds.Cluster, Name: "size"}, Spec: *size}
		in.Set.Preference = &instancetype.Preference{Source: instancetype.Source{Kind: instancetype.PreferenceKinds.Cluster, Name: "taste"}, Spec: *taste}
		return in
	}
	if !n.base(vm, of(&size, &v1beta1.VirtualMachinePreferenceSpec{})) {
		t.Fatal("the VM itself is refused")
	}
	changes.EachField(reflect.TypeFor[v1beta1.VirtualMachinePreferenceSpec](), legalElsewhere, func(c changes.Single) {
		var taste v1beta1.VirtualMachinePreferenceSpec
		if unmarshal([]byte(text(c.Object)), &taste) == nil {
			n.try(c.What, vm, of(&size, &taste), "reference 'taste'")
		}
	})
	changes.EachField(reflect.TypeFor[v1beta1.VirtualMachineInstancetypeSpec](), legalElsewhere, func(c changes.Single) {
		larger := size
		if unmarshal([]byte(text(c.Object)), &larger) == nil {
			n.try(c.What, vm, of(&larger, &v1beta1.VirtualMachinePreferenceSpec{}), "nstancetype 'size'")
		}
	})
	for _, s := range rich(t) {
		object, err := generic(s.sent())
		if err != nil {
			t.Fatal(err)
		}
		bare := runtime.DeepCopyJSON(object.(map[string]any))
		template := bare["spec"].(map[string]any)["template"].(map[string]any)
		n.preset(s, bare, template["spec"].(map[string]any))
		n.profile(s, object.(map[string]any)["spec"].(map[string]any)["template"].(map[string]any))
	}
	t.Logf("%d tried, %d refused, %d warned of", n.tried, n.refused, n.warned)
	if n.refused < 3000 || n.warned < 10 {
		t.Errorf("too few are refused or warned of: %d and %d of %d", n.refused, n.warned, n.tried)
	}
}

// preset has a preset fill the domain of a VM that has all but the domain.
func (n *attributed) preset(s subject, bare, spec map[string]any) {
	own := spec["domain"].(map[string]any)
	domain := map[string]any{}
	for _, name := range []string{"cpu", "clock", "features", "firmware", "ioThreadsPolicy"} { // what KubeVirt's presets fill
		if own[name] != nil {
			domain[name] = own[name]
		}
		delete(own, name)
	}
	move := func(from map[string]any, name, of string) {
		if inside, is := from[name].(map[string]any); is && inside[of] != nil {
			domain[name] = map[string]any{of: inside[of]}
			delete(inside, of)
		}
	}
	move(own, "resources", "requests")
	move(own, "devices", "watchdog")
	metadata := map[string]any{"labels": map[string]any{"os": "any"}}
	bare["spec"].(map[string]any)["template"].(map[string]any)["metadata"] = metadata
	input := func(domain any) (in admit.Input, ok bool) {
		in = admit.Input{Cluster: generous(), Presets: make([]v1.VirtualMachineInstancePreset, 1)}
		in.Presets[0].Name = "hostile"
		in.Presets[0].Spec.Selector.MatchLabels = map[string]string{"os": "any"}
		return in, unmarshal([]byte(text(domain)), &in.Presets[0].Spec.Domain) == nil
	}
	in, _ := input(domain)
	if !n.base(bare, in) {
		return
	}
	changes.Each(map[string]any{"domain": domain}, "domain", nil, func(c changes.Single) {
		if in, ok := input(c.Object["domain"]); ok && !strings.HasSuffix(c.What, " removed") {
			n.try(s.name+": "+c.What, bare, in, "preset 'hostile'")
		}
	})
}

// profile has a profile fill a VM that has nothing.
func (n *attributed) profile(s subject, template map[string]any) {
	empty := map[string]any{"spec": map[string]any{"domain": map[string]any{"devices": map[string]any{}}}}
	bare := map[string]any{"metadata": map[string]any{"name": "guest", "namespace": namespace},
		"spec": map[string]any{"runStrategy": "Always", "template": empty}}
	input := func(template any) (in admit.Input, ok bool) {
		in = admit.Input{Cluster: generous()}
		raw := text(map[string]any{"apiVersion": v1alpha1.GroupVersion.String(), "kind": v1alpha1.KindGuestProfile, "metadata": map[string]any{"name": "hostile"},
			"spec": map[string]any{"selector": map[string]any{}, "template": template}})
		read, err := profile.Read("", []byte(raw))
		in.Profiles = []*profile.Profile{read}
		return in, err == nil
	}
	in, ok := input(template)
	if !ok || !n.base(bare, in) {
		n.t.Errorf("%s cannot come from a profile", s.name)
		return
	}
	changes.Each(template, "spec", nil, func(c changes.Single) {
		if in, ok := input(c.Object); ok && !strings.HasSuffix(c.What, " removed") {
			n.try(s.name+": "+c.What, bare, in, "GuestProfile 'hostile'")
		}
	})
}

// attributed counts the objects that were tried, and how many of them were refused or warned of.
type attributed struct {
	t                      *testing.T
	tried, refused, warned int
	before                 []string
	seen                   map[string]bool
}

// base judges a VM with legal values, and reports whether they are legal there: encryption needs firmware that no preset gives to a VM.
func (n *attributed) base(vm any, in admit.Input) bool {
	n.t.Helper()
	s := n.subject(vm, in)
	_, verdict := stage1(s)
	n.before = verdict.Warnings
	return verdict.Allowed()
}

func (n *attributed) subject(vm any, in admit.Input) subject {
	s := subject{raw: []byte(text(vm)), in: in}
	if err := s.read(true); err != nil {
		n.t.Fatal(err)
	}
	if err := s.match(); err != nil {
		n.t.Fatal(err)
	}
	return s
}

// try demands that all messages name the origin. Only the message that nothing gives the memory does not: the origin's request of 0 is not a request.
func (n *attributed) try(what string, vm any, in admit.Input, origin string) {
	n.t.Helper()
	s := n.subject(vm, in)
	n.judge(what, s, origin)
	if in.Set.Instancetype == nil { // else the VMI has it by its pins, and KubeVirt's controller makes it of a VM that was judged
		s.vmi = admit.Instance(s.vm)
		s.vm = nil
		n.judge(what+", as a VMI", s, origin)
	}
}

// judge demands it of one object.
func (n *attributed) judge(what string, s subject, origin string) {
	n.t.Helper()
	n.tried++
	_, verdict := stage1(s)
	if len(verdict.Errors) > 0 {
		n.refused++
	}
	for _, err := range verdict.Errors {
		if err.Origin != "memory/given" && !strings.Contains(err.Detail, origin) && !n.seen[err.Origin+origin] {
			n.seen[err.Origin+origin] = true
			n.t.Errorf("%s of %s (%s): %v", what, origin, err.Origin, err)
		}
	}
	for _, w := range verdict.Warnings {
		if slices.Contains(n.before, w) {
			continue
		}
		n.warned++
		if !strings.Contains(w, origin) && !n.seen[origin+w[:20]] {
			n.seen[origin+w[:20]] = true
			n.t.Errorf("%s of %s: %s", what, origin, w)
		}
	}
}
