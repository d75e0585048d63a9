package domainimport

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/kilnvm/kiln/internal/workbench/catalogs"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/domain/imported"
	"github.com/kilnvm/kiln/pkg/instancetype"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Choice is an instancetype or a preference that is near to the domain.
type Choice struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Used reports that the VM refers to it.
	Used bool `json:"used"`
	// Details say why it is not used, or what else it sets.
	Details []string `json:"details,omitempty"`
}

// The fields of a VM's spec that refer to objects of catalogs.
const (
	preferenceField   = "preference"
	instancetypeField = "instancetype"
)

// chooser finds the instancetype and the preference of a catalog with which the VM boots the same domain as without them. The domain of the next boot is the
// judge: a catalog may set fields that this package does not know.
type chooser struct {
	bench   *workbench.Bench
	doc     *imported.Document
	reading *imported.Reading
	options Options
	// base is the import without the catalog. plain is the VM to which the next object is added.
	base    *Import
	plain   *repairer
	choices []Choice
	notes   []string
	// kept are the paths of fields of the VMI that the VM sets because the chosen objects would change them. others are the fields that are different though the
	// domain is the same.
	kept, others []string
}

// choose returns the import with the preference and the instancetype that can be used. Without any, it is the import without the catalog, and its report says
// why.
func (c *chooser) choose(ctx context.Context) (*Import, error) {
	best := c.base
	if err := c.choosePreference(ctx, &best); err != nil {
		return nil, err
	}
	if err := c.chooseInstancetype(ctx, &best); err != nil {
		return nil, err
	}
	best.Report.Choices, best.Report.Notes = c.choices, append(best.Report.Notes, c.notes...)
	return best, nil
}

// choosePreference tries the preferences for the operating system of the domain. It replaces best by the import with the first one that can be used.
func (c *chooser) choosePreference(ctx context.Context, best **Import) error {
	offers, err := c.offersOf(instancetype.PreferenceKinds, catalogs.Wish{})
	if err != nil {
		return err
	}
	id := systemOf(c.doc.Root)
	found := preferencesFor(systemKey(id), offers)
	switch {
	case id == "":
		c.notes = append(c.notes, "no preference was chosen: the metadata of the domain do not name an operating system")
	case len(found) == 0:
		c.notes = append(c.notes, fmt.Sprintf("no preference was chosen: the catalog has none for '%s'", id))
	}
	for i := range found {
		made, details, err := c.try(ctx, preferenceField, found[i])
		if err != nil {
			return err
		}
		c.choices = append(c.choices, Choice{found[i].Kind, found[i].Name, made != nil, details})
		if made != nil {
			*best = made
			return nil
		}
	}
	return nil
}

// chooseInstancetype tries the instancetypes with exactly the CPUs and memory of the domain, together with the chosen preference. It replaces best by the
// import with the first one that can be used. Without such an instancetype, it reports the nearest one.
func (c *chooser) chooseInstancetype(ctx context.Context, best **Import) error {
	cpu, memory := c.base.explicit.Spec.Domain.CPU, c.base.explicit.Spec.Domain.Memory
	wish := catalogs.Wish{CPUs: cpu.Sockets * cpu.Cores * cpu.Threads, Memory: *memory.Guest}
	offers, err := c.offersOf(instancetype.Kinds, wish)
	if err != nil {
		return err
	}
	if len(offers) == 0 {
		c.notes = append(c.notes, fmt.Sprintf("no instancetype was chosen: the catalog has none with %s or more", sizeText(wish.CPUs, wish.Memory.String())))
		return nil
	}
	exact := slices.DeleteFunc(slices.Clone(offers), func(o catalogs.Offer) bool {
		return whyOther(o, wish.CPUs, wish.Memory) != ""
	})
	if len(exact) == 0 {
		nearest := catalogs.NearestOf(wish, offers)
		c.choices = append(c.choices, Choice{nearest.Kind, nearest.Name, false, []string{whyOther(nearest, wish.CPUs, wish.Memory)}})
		return nil
	}
	slices.SortStableFunc(exact, func(a, b catalogs.Offer) int { return cmp.Compare(rankOf(a), rankOf(b)) })
	for i := range exact[:min(len(exact), mostTried)] {
		made, details, err := c.try(ctx, instancetypeField, exact[i])
		if err != nil {
			return err
		}
		c.choices = append(c.choices, Choice{exact[i].Kind, exact[i].Name, made != nil, details})
		if made != nil {
			*best = made
			return nil
		}
	}
	return nil
}

// rankOf returns 0 for active offers and 1 for deprecated ones.
func rankOf(o catalogs.Offer) int {
	if o.Lifecycle == v1alpha1.LifecycleActive {
		return 0
	}
	return 1
}

// whyOther says what an instancetype has that the domain does not have; empty if it has exactly the CPUs and memory of the domain, and nothing else.
func whyOther(o catalogs.Offer, cpus uint32, memory resource.Quantity) string {
	switch {
	case o.CPUs != cpus || o.Bytes != memory.Value():
		return fmt.Sprintf("it has %s, and the domain has %s", sizeText(o.CPUs, o.Memory), sizeText(cpus, memory.String()))
	case o.Refused != "":
		return "no guest starts with it: " + o.Refused
	case o.GPUs+o.HostDevices > 0:
		return "it has devices of the host, and the domain has none of them"
	case len(o.Features) > 0:
		return "it has " + strings.Join(o.Features, ", ") + ", and the VM has not"
	case o.NeedsSpecialNode:
		return "its guests run on special nodes only"
	}
	return ""
}

// sizeText returns a number of CPUs and an amount of memory in words.
func sizeText(cpus uint32, memory string) string {
	if cpus == 1 {
		return "1 CPU and " + memory
	}
	return fmt.Sprintf("%d CPUs and %s", cpus, memory)
}

// offersOf returns the instancetypes or preferences that new VMs of the namespace may use.
func (c *chooser) offersOf(kinds instancetype.KindNames, w catalogs.Wish) ([]catalogs.Offer, error) {
	w.Kinds, w.Refused = kinds, c.options.RefusedByRuntime
	offers, err := c.options.Catalog.Choose(w, c.now())
	return slices.DeleteFunc(offers, func(o catalogs.Offer) bool {
		return o.Namespace != "" && o.Namespace != cmp.Or(c.options.Namespace, defaultNamespace)
	}), err
}

// now returns the time of the bench, by which objects of catalogs become obsolete.
func (c *chooser) now() time.Time {
	if c.bench.Now == nil {
		return time.Now()
	}
	return c.bench.Now()
}

// try makes the VM with one more preference or instancetype. It returns nil and the reason if admission refuses the VM, or if the next boot is another domain.
// Fields that the object would change get the values of the VM without it. The details of a success say which fields these are, and what else is different in
// the VMI. After a success the next object is tried with this VM.
func (c *chooser) try(ctx context.Context, field string, offer catalogs.Offer) (*Import, []string, error) {
	r := &repairer{object: c.plain.object.DeepCopy(), judged: c.plain.judged.DeepCopy(), notes: slices.Clone(c.plain.notes), left: c.plain.left}
	r.each(func(vm *unstructured.Unstructured) {
		spec, _ := vm.Object["spec"].(map[string]any)
		if spec[field] = map[string]any{"kind": offer.Kind, "name": offer.Name}; field == instancetypeField {
			removeSize(vm)
		}
	})
	k := &keeper{arch: c.base.explicit.Spec.Architecture, repairer: r, kept: slices.Clone(c.kept), earlier: len(c.kept)}
	for range mostRepairs {
		made, err := makeOnce(ctx, c.bench, c.doc, c.reading, r, c.options)
		var refusal *workbench.Refusal
		switch {
		case errors.As(err, &refusal):
			if errs := refusal.Guest.Verdict.Errors; !k.keepAbsent("", c.base.explicit) {
				return nil, []string{"admission would refuse the VM: " + errs[0].Error()}, nil
			}
			continue
		case err != nil:
			return nil, nil, err
		}
		differing, values, err := c.differences(made)
		switch {
		case err != nil:
			return nil, nil, err
		case isSame(c.base, made):
			others := slices.DeleteFunc(slices.Clone(differing), func(path string) bool { return slices.Contains(c.others, path) })
			c.plain, c.kept, c.others = r, k.kept, differing
			return made, k.details(others), nil
		case !k.keep(differing, values, c.base.explicit):
			return nil, []string{whyDifferent(c.base, made, k.changed)}, nil
		}
	}
	return nil, []string{"the guest would change"}, nil
}

// sizeFields are the fields of a VMI that each instancetype sets, and that a VM with an instancetype must not set.
var sizeFields = []string{"spec.domain.cpu.sockets", "spec.domain.cpu.cores", "spec.domain.cpu.threads", "spec.domain.memory.guest"}

// removeSize removes from a VM what each instancetype sets.
func removeSize(vm *unstructured.Unstructured) {
	for _, path := range sizeFields {
		unstructured.RemoveNestedField(vm.Object, strings.Split("spec.template."+path, ".")...)
	}
}

// differences returns the paths of the fields of the explicit VMI that are different with the catalog, and both values of each.
func (c *chooser) differences(made *Import) (paths []string, values map[string][2]any, err error) {
	before, err := leavesOf(c.base.explicit)
	if err != nil {
		return nil, nil, err
	}
	after, err := leavesOf(made.explicit)
	if err != nil {
		return nil, nil, err
	}
	paths, values = differingLeaves(before, after), map[string][2]any{}
	for _, path := range paths {
		values[path] = [2]any{before[path], after[path]}
	}
	return paths, values, nil
}

// isSame reports whether two imports boot the same domain with the same record.
func isSame(a, b *Import) bool {
	var texts [2]string
	for i, one := range []*Import{a, b} {
		domain, err := one.Next.Marshal()
		if err != nil {
			return false
		}
		hardware, err := json.Marshal(one.Hardware)
		if err != nil {
			return false
		}
		texts[i] = domain + string(hardware)
	}
	return texts[0] == texts[1]
}

// whyDifferent says what the guest would find different with an object, and which fields of the VMI it changes.
func whyDifferent(base, made *Import, fields []string) string {
	var texts []string
	for _, change := range abi.Compare(base.Next, made.Next) {
		texts = append(texts, change.Text)
	}
	if len(texts) == 0 {
		texts = []string{"the host would run the guest in another way"}
	}
	return "with it, " + firstTexts("; ", texts) + ": it changes " + firstTexts(", ", fields)
}

// firstTexts joins the first texts, and says how many others there are.
func firstTexts(separator string, texts []string) string {
	const most = 4
	if len(texts) > most {
		texts = append(slices.Clone(texts[:most]), fmt.Sprintf("and %d more", len(texts)-most))
	}
	return strings.Join(texts, separator)
}
