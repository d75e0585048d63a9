package patch

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"reflect"
	"testing"

	jsonpatch5 "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/pkg/internal/leaves"
	jsonpatch4 "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"
)

func TestPatch(t *testing.T) {
	yes := true
	guest := resource.MustParse("1Gi")
	for _, test := range []struct {
		name, why, raw, want string
		change               func(*v1.VirtualMachineInstance)
	}{
		{
			name: "nothing", why: "admitting what was admitted gives an empty patch",
			raw: `{"spec":{"domain":{"devices":{}}}}`, want: ``, change: func(*v1.VirtualMachineInstance) {},
		},
		{
			name: "leaf in an existing parent", why: "only what differs is touched",
			raw:    `{"spec":{"domain":{"devices":{}},"newer":1}}`,
			want:   `[{"op":"add","path":"/spec/domain/memory","value":{"guest":"1Gi"}}]`,
			change: func(vmi *v1.VirtualMachineInstance) { vmi.Spec.Domain.Memory = &v1.Memory{Guest: &guest} },
		},
		{
			name: "missing parents", why: "the typed form has devices even when the bytes do not",
			raw:  `{"metadata":{"name":"a"}}`,
			want: `[{"op":"add","path":"/spec","value":{"architecture":"amd64","domain":{"devices":{"rng":{}}}}}]`,
			change: func(vmi *v1.VirtualMachineInstance) {
				vmi.Spec.Domain.Devices.Rng = &v1.Rng{}
				vmi.Spec.Architecture = "amd64"
			},
		},
		{
			name: "null parent", why: "a null holds no children",
			raw:    `{"spec":{"domain":{"devices":null}}}`,
			want:   `[{"op":"add","path":"/spec/domain/devices","value":{"rng":{}}}]`,
			change: func(vmi *v1.VirtualMachineInstance) { vmi.Spec.Domain.Devices.Rng = &v1.Rng{} },
		},
		{
			name: "annotation key", why: "RFC 6901 escapes slashes, and other keys survive",
			raw:    `{"metadata":{"annotations":{"a":"b"}},"spec":{"domain":{"devices":{}}}}`,
			want:   `[{"op":"add","path":"/metadata/annotations/kilnvm.io~1pins","value":"{}"}]`,
			change: func(vmi *v1.VirtualMachineInstance) { vmi.Annotations["kilnvm.io/pins"] = "{}" },
		},
		{
			name: "inlined element", why: "a disk's target is inlined into the disk",
			raw:    `{"spec":{"domain":{"devices":{"disks":[{"name":"a","disk":{}}]}}}}`,
			want:   `[{"op":"add","path":"/spec/domain/devices/disks/0/disk/bus","value":"virtio"}]`,
			change: func(vmi *v1.VirtualMachineInstance) { vmi.Spec.Domain.Devices.Disks[0].Disk.Bus = "virtio" },
		},
		{
			name: "appended element", why: "elements that were there stay untouched",
			raw:  `{"spec":{"domain":{"devices":{"disks":[{"name":"a"}]}}}}`,
			want: `[{"op":"add","path":"/spec/domain/devices/disks/1","value":{"name":"b"}}]`,
			change: func(vmi *v1.VirtualMachineInstance) {
				vmi.Spec.Domain.Devices.Disks = append(vmi.Spec.Domain.Devices.Disks, v1.Disk{Name: "b"})
			},
		},
		{
			name: "replaced and removed", why: "a key that held a value is replaced; an absent one is not removed",
			raw: `{"spec":{"hostname":"a","subdomain":"b","domain":{"devices":{"autoattachGraphicsDevice":false}}}}`,
			want: `[{"op":"replace","path":"/spec/domain/devices/autoattachGraphicsDevice","value":true},` +
				`{"op":"replace","path":"/spec/hostname","value":"c"},{"op":"remove","path":"/spec/subdomain"}]`,
			change: func(vmi *v1.VirtualMachineInstance) {
				vmi.Spec.Hostname, vmi.Spec.Subdomain, vmi.Spec.Domain.Devices.AutoattachGraphicsDevice = "c", "", &yes
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := &v1.VirtualMachineInstance{}
			if err := json.Unmarshal([]byte(test.raw), before); err != nil {
				t.Fatal(err)
			}
			after := before.DeepCopy()
			test.change(after)
			patch, err := Write([]byte(test.raw), before, after)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(normal(t, test.want), normal(t, string(patch))); diff != "" {
				t.Errorf("%s (-want +got):\n%s", test.why, diff)
			}
			checkApplies(t, []byte(test.raw), patch, after)
		})
	}
}

func normal(t *testing.T, text string) any {
	if text == "" {
		return nil
	}
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatal(err)
	}
	return value
}

// checkApplies proves that both appliers accept the patch and that the result reads as the engine's object.
func checkApplies(t *testing.T, raw, patch []byte, want *v1.VirtualMachineInstance) {
	t.Helper()
	if patch == nil {
		patch = []byte("[]")
	}
	four, err := jsonpatch4.DecodePatch(patch)
	if err != nil {
		t.Fatal(err)
	}
	five, err := jsonpatch5.DecodePatch(patch)
	if err != nil {
		t.Fatal(err)
	}
	for name, apply := range map[string]func([]byte) ([]byte, error){"v4": four.Apply, "v5": five.Apply} {
		out, err := apply(raw)
		if err != nil {
			t.Fatalf("json-patch %s refuses %s on %s: %v", name, patch, raw, err)
		}
		got := &v1.VirtualMachineInstance{}
		if err := json.Unmarshal(out, got); err != nil {
			t.Fatal(err)
		}
		if !equality.Semantic.DeepEqual(want, got) {
			t.Errorf("json-patch %s gives another object than the engine:\n%s", name, cmp.Diff(asJSON(t, want), asJSON(t, got)))
		}
	}
}

func asJSON(t *testing.T, object any) any {
	raw, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return normal(t, string(raw))
}

// Any two objects, whatever their zero values, are joined by a patch that both appliers take.
func TestPatchJoinsAnyTwoObjects(t *testing.T) {
	seed := int64(20261121)
	random := rand.New(rand.NewSource(seed))
	for i := range 500 {
		before, after := &v1.VirtualMachineInstance{}, &v1.VirtualMachineInstance{}
		scramble(random, reflect.ValueOf(&before.Spec).Elem(), 0)
		if i%2 == 0 {
			after = before.DeepCopy()
		}
		scramble(random, reflect.ValueOf(&after.Spec).Elem(), 0)
		raw, err := json.Marshal(before)
		if err != nil {
			t.Fatal(err)
		}
		// what the webhook sees is the decoded form, in which empty and absent are one
		before, after = decoded(t, raw), decoded(t, mustJSON(t, after))
		patch, err := Write(raw, before, after)
		if err != nil {
			t.Fatal(err)
		}
		checkApplies(t, raw, patch, after)
		if t.Failed() {
			t.Fatalf("seed %d, object %d, patch %s", seed, i, patch)
		}
	}
}

func decoded(t *testing.T, raw []byte) *v1.VirtualMachineInstance {
	vmi := &v1.VirtualMachineInstance{}
	if err := json.Unmarshal(raw, vmi); err != nil {
		t.Fatal(err)
	}
	return vmi
}

func mustJSON(t *testing.T, object any) []byte {
	raw, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// scramble sets random fields below v, to a depth that reaches every device.
func scramble(random *rand.Rand, v reflect.Value, depth int) {
	if depth > 9 || v.Type() == reflect.TypeFor[resource.Quantity]() {
		if q, ok := v.Addr().Interface().(*resource.Quantity); ok {
			*q = *resource.NewQuantity(int64(random.Intn(5)), resource.BinarySI)
		}
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() && random.Intn(3) == 0 && plain(v.Field(i).Type()) {
				scramble(random, v.Field(i), depth+1)
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		scramble(random, v.Elem(), depth+1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), random.Intn(3), 3))
		for i := range v.Len() {
			scramble(random, v.Index(i), depth+1)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range random.Intn(3) {
			value := reflect.New(v.Type().Elem()).Elem()
			scramble(random, value, depth+1)
			v.SetMapIndex(reflect.ValueOf(fmt.Sprintf("k.%d/~", random.Intn(4))).Convert(v.Type().Key()), value)
		}
	case reflect.String:
		v.SetString(fmt.Sprint(random.Intn(3)))
	case reflect.Bool:
		v.SetBool(random.Intn(2) == 0)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(int64(random.Intn(3)))
	case reflect.Uint, reflect.Uint8, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(random.Intn(3)))
	}
}

// plain leaves out types whose JSON has its own syntax besides quantities.
func plain(t reflect.Type) bool {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t == reflect.TypeFor[resource.Quantity]() || !leaves.WritesItself(t)
}
