package fields

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/render"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Guest is a sample VMI as a user writes it, in which leaves are taken away one by one.
type Guest struct {
	Name string
	VMI  v1.VirtualMachineInstance
}

// outcome is what a VMI leads to: an explicit spec and a domain, or refusals.
type outcome struct {
	explicit *v1.VirtualMachineInstance
	// elements are the values of the domain's attributes and texts by path, such as devices/disk/driver@cache.
	elements map[string][]string
	refused  field.ErrorList
}

// admitAndRender takes a sparse VMI through all stages.
func admitAndRender(vmi *v1.VirtualMachineInstance, cluster config.Cluster) outcome {
	o := admittedOnly(vmi, cluster)
	if len(o.refused) > 0 {
		return o
	}
	return renderExplicit(o.explicit, cluster)
}

// admittedOnly takes a sparse VMI through stage 1.
func admittedOnly(vmi *v1.VirtualMachineInstance, cluster config.Cluster) outcome {
	in := admit.Input{Cluster: cluster}
	explicit, verdict := admit.VMI(vmi, in)
	if verdict.Allowed() {
		verdict = admit.Judge(explicit, in)
	}
	return outcome{explicit: explicit, refused: verdict.Errors}
}

// renderExplicit takes an explicit VMI through stages 2 and 3, on the host that offline rendering assumes.
func renderExplicit(vmi *v1.VirtualMachineInstance, cluster config.Cluster) outcome {
	out, errs := render.Domain(render.Machine{
		VMI: vmi, Defaults: cluster.Frontend, Host: backend.Assumed(vmi.Spec.Architecture), Bindings: backend.AssumedBindings(vmi),
	})
	o := outcome{explicit: vmi, refused: errs, elements: map[string][]string{}}
	if len(errs) > 0 {
		return o
	}
	text, err := out.Documents.Domain.Marshal()
	if err != nil {
		o.refused = field.ErrorList{field.InternalError(nil, err)}
		return o
	}
	o.addElements(text)
	return o
}

// addElements adds the elements of one document.
func (o *outcome) addElements(document string) {
	decoder := xml.NewDecoder(strings.NewReader(document))
	var at []string
	for {
		token, err := decoder.Token()
		if err == io.EOF {
			return
		}
		switch token := token.(type) {
		case xml.StartElement:
			at = append(at, token.Name.Local)
			path := strings.Join(at[1:], "/")
			o.elements[path] = append(o.elements[path], "")
			for _, a := range token.Attr {
				o.elements[path+"@"+a.Name.Local] = append(o.elements[path+"@"+a.Name.Local], a.Value)
			}
		case xml.EndElement:
			at = at[:len(at)-1]
		case xml.CharData:
			if text := strings.TrimSpace(string(token)); text != "" {
				path := strings.Join(at[1:], "/")
				o.elements[path] = append(o.elements[path], text)
			}
		}
	}
}

// changedElements lists the elements in which two domains differ.
func changedElements(a, b outcome) (paths []string) {
	for _, path := range slices.Sorted(maps.Keys(a.elements)) {
		if !slices.Equal(a.elements[path], b.elements[path]) {
			paths = append(paths, path)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(b.elements)) {
		if _, both := a.elements[path]; !both {
			paths = append(paths, path)
		}
	}
	return paths
}

// shown is how many elements stand for a leaf: what follows from them, such as addresses of other devices, is left out.
const shown = 4

func shortenList(elements []string) (list []string) {
	for _, element := range elements {
		if !strings.Contains(element, "/address") && !strings.HasPrefix(element, "devices/controller") {
			list = append(list, "`"+element+"`")
		}
	}
	if len(list) == 0 {
		return []string{"`" + elements[0] + "`"}
	}
	slices.SortStableFunc(list, func(a, b string) int { return strings.Count(a, "/") - strings.Count(b, "/") })
	return list[:min(len(list), shown)]
}

// variantsWithout returns the VMI once for each place at which a leaf stands in it, with the leaf taken away there.
func variantsWithout(vmi *v1.VirtualMachineInstance, leaf string) ([]*v1.VirtualMachineInstance, error) {
	return variantsOf(vmi, leaf, func(holder map[string]any, name string) bool { delete(holder, name); return true })
}

// variantsTurned returns the VMI once for each place at which a switch stands in it, with the switch turned there.
func variantsTurned(vmi *v1.VirtualMachineInstance, leaf string) ([]*v1.VirtualMachineInstance, error) {
	return variantsOf(vmi, leaf, func(holder map[string]any, name string) bool {
		on, is := holder[name].(bool)
		holder[name] = !on
		return is
	})
}

// variantsOf returns the VMI once for each place at which a leaf stands in it, changed there.
func variantsOf(vmi *v1.VirtualMachineInstance, leaf string, change func(map[string]any, string) bool) (found []*v1.VirtualMachineInstance, err error) {
	raw, err := json.Marshal(vmi.Spec)
	if err != nil {
		return nil, err
	}
	for place := 0; ; place++ {
		var spec map[string]any
		if err := json.Unmarshal(raw, &spec); err != nil {
			return nil, err
		}
		left := place
		holder := holderOf(spec, strings.Split(strings.ReplaceAll(leaf, "{}", ""), "."), &left)
		if holder == nil {
			return found, nil
		}
		if !change(holder, strings.TrimRight(leaf[strings.LastIndexByte(leaf, '.')+1:], "[]{}")) {
			continue
		}
		changed, err := json.Marshal(spec)
		if err != nil {
			return nil, err
		}
		variant := vmi.DeepCopy()
		variant.Spec = v1.VirtualMachineInstanceSpec{}
		if err := json.Unmarshal(changed, &variant.Spec); err != nil {
			return nil, fmt.Errorf("another %s: %w", leaf, err)
		}
		found = append(found, variant)
	}
}

// holderOf returns the object in which the leaf stands at its n-th place, or nil. Places are counted down in n.
func holderOf(node map[string]any, path []string, n *int) map[string]any {
	name, list := strings.CutSuffix(path[0], "[]")
	value, found := node[name]
	if !found {
		return nil
	}
	if len(path) == 1 {
		if *n--; *n >= 0 {
			return nil
		}
		return node
	}
	items := []any{value}
	if list {
		items, _ = value.([]any)
	}
	for _, item := range items {
		if child, ok := item.(map[string]any); ok {
			if holder := holderOf(child, path[1:], n); holder != nil {
				return holder
			}
		}
	}
	return nil
}
