// Package cpucheck finds guests that cannot start again with their recorded CPU, on the nodes as they are now.
package cpucheck

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/nodecpu"
	"github.com/kilnvm/kiln/internal/nodecpu/fleet"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/ownership"
	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
	"github.com/kilnvm/kiln/pkg/record"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Check is the result of a check.
type Check struct {
	// Nodes is the number of nodes that report which CPUs they offer. SilentNodes are the names of the others.
	Nodes       int      `json:"nodes"`
	SilentNodes []string `json:"silentNodes"`
	// Guests are the guests with a recorded CPU: first those that can start nowhere, then those that can start on some nodes only.
	Guests []Guest `json:"guests"`
	// Unrecorded is the number of VMs, and of VMIs without a VM, whose next boot records the CPU that it finds.
	Unrecorded int `json:"unrecorded"`
	// Unjudged are the guests whose record cannot be read.
	Unjudged []UnjudgedGuest `json:"unjudged"`
	Warnings []string        `json:"warnings"`
}

// Guest is a guest with a recorded CPU.
type Guest struct {
	Namespace string `json:"namespace"`
	Kind      string `json:"kind"`
	Name      string `json:"name"`
	// Requested is the model of the VM, such as host-model, and Model the model that the guest found.
	Requested string `json:"requested"`
	Model     string `json:"model"`
	// Offered says where the guest can start again: everywhere, somewhere, nowhere, or unreported.
	Offered fleet.Outlook `json:"offered"`
	// Offering are the nodes on which the guest can start again. Lacking are the others that it may start on.
	Offering []string  `json:"offering"`
	Lacking  []Lacking `json:"lacking"`
	// Mitigations are the features against flaws of CPUs that all nodes of the guest offer and the recorded CPU lacks.
	Mitigations []string `json:"mitigations"`
	// FirstSeen reports that the guest had booted before its CPU was recorded. Verified reports that libvirt ran it with exactly this CPU.
	FirstSeen bool `json:"firstSeen,omitempty"`
	Verified  bool `json:"verified,omitempty"`
	// Text says in one sentence what is missing; empty if nothing is.
	Text string `json:"message,omitempty"`
}

// Lacking are nodes that lack the same.
type Lacking struct {
	Nodes   []string `json:"nodes"`
	Missing string   `json:"missing"`
}

// UnjudgedGuest is a guest whose record cannot be read, and the reason.
type UnjudgedGuest struct {
	Namespace string `json:"namespace"`
	Kind      string `json:"kind"`
	Name      string `json:"name"`
	Reason    string `json:"reason"`
}

// checker judges guests.
type checker struct {
	Check
	bench     *workbench.Bench
	in        manifest.Inputs
	fleet     *fleet.Fleet
	hardwares map[client.ObjectKey]*v1alpha1.GuestHardware
}

// guestKinds are the kinds of guests.
var guestKinds = []string{v1.VirtualMachineInstanceGroupVersionKind.Kind, v1.VirtualMachineGroupVersionKind.Kind}

// OfCluster checks the guests of a namespace, or of all namespaces if it is empty. It reads them in pages.
func OfCluster(ctx context.Context, b *workbench.Bench, cluster client.Reader, namespace string) (Check, error) {
	c, err := newChecker(ctx, b, manifest.Inputs{Reader: objects.Remember(cluster), OfCluster: true}, namespace)
	if err != nil {
		return c.Check, err
	}
	for _, kind := range guestKinds {
		err := manifest.EachPage(ctx, cluster, v1.GroupVersion.WithKind(kind), namespace, func(page []manifest.Object) error { return c.judgePage(ctx, page) })
		if err != nil {
			return c.Check, err
		}
	}
	return c.sorted(), nil
}

// OfDump checks the guests of files, on the nodes in them.
func OfDump(ctx context.Context, b *workbench.Bench, dump *manifest.Dump) (Check, error) {
	c, err := newChecker(ctx, b, dump.Inputs, "")
	if err != nil {
		return c.Check, err
	}
	for _, one := range dump.Named {
		if one.Fault != nil {
			c.Unjudged = append(c.Unjudged, UnjudgedGuest{Name: one.File(), Reason: one.Fault.Error()})
		}
	}
	for page := dump.NextGuests(manifest.PageSize); len(page) > 0; page = dump.NextGuests(manifest.PageSize) {
		if err := c.judgePage(ctx, page); err != nil {
			return c.Check, err
		}
	}
	return c.sorted(), nil
}

// newChecker reads the nodes, and the GuestHardware of a namespace or of all. It fails if no node reports which CPUs it offers.
func newChecker(ctx context.Context, b *workbench.Bench, in manifest.Inputs, namespace string) (*checker, error) {
	c := &checker{bench: b, in: in, hardwares: map[client.ObjectKey]*v1alpha1.GuestHardware{}}
	c.SilentNodes, c.Guests, c.Unjudged, c.Warnings = []string{}, []Guest{}, []UnjudgedGuest{}, []string{}
	configuration, warnings, err := b.Configuration(ctx, in)
	c.Warnings = append(c.Warnings, warnings...)
	if err != nil {
		return c, err
	}
	if c.fleet, err = ReadFleet(ctx, in.Reader, nodecpu.SourceOf(configuration.Cluster)); err != nil {
		return c, err
	}
	reports, silent := c.fleet.Nodes()
	c.Nodes, c.SilentNodes = len(reports), append(c.SilentNodes, silent...)
	return c, c.readHardwares(ctx, namespace)
}

// readHardwares reads all GuestHardware in pages, and keeps of each what a check needs.
func (c *checker) readHardwares(ctx context.Context, namespace string) error {
	for next := ""; ; {
		var page v1alpha1.GuestHardwareList
		err := c.in.Reader.List(ctx, &page, client.InNamespace(namespace), client.Limit(manifest.PageSize), client.Continue(next))
		if err != nil {
			return fmt.Errorf("reading GuestHardware: %w", err)
		}
		for i := range page.Items {
			read := &page.Items[i]
			kept := &v1alpha1.GuestHardware{Spec: v1alpha1.GuestHardwareSpec{Identity: read.Spec.Identity}}
			kept.Status.VirtualMachineUID, kept.Status.Guest = read.Status.VirtualMachineUID, read.Status.Guest
			if read.Spec.Hardware != nil {
				kept.Spec.Hardware = &record.Record{CPU: read.Spec.Hardware.CPU}
			}
			c.hardwares[client.ObjectKeyFromObject(read)] = kept
		}
		if next = page.Continue; next == "" {
			return ctx.Err()
		}
	}
}

// ReadFleet reads the nodes. It fails if none of them reports which CPUs it offers.
func ReadFleet(ctx context.Context, reader client.Reader, source nodecpu.Source) (*fleet.Fleet, error) {
	var nodes corev1.NodeList
	if err := reader.List(ctx, &nodes); err != nil {
		return nil, fmt.Errorf("reading the nodes: %w", err)
	}
	read := fleet.New(source, nodes.Items)
	if reports, silent := read.Nodes(); len(reports) == 0 {
		agent, label := source.Agent()
		return nil, fmt.Errorf("none of %d nodes reports which CPUs it offers: %s writes labels '%s...'%s", len(silent), agent, label,
			hintAtConfig(source, nodes.Items))
	}
	return read, nil
}

// hintAtConfig returns how to go on if the nodes report the CPUs of other guests than the configuration has: a configuration in a file is not in the
// cluster. It returns nothing if they report none.
func hintAtConfig(source nodecpu.Source, nodes []corev1.Node) string {
	opposite, known := source.Opposite()
	if !known {
		return ""
	}
	reports, _ := fleet.New(opposite, nodes).Nodes()
	if len(reports) == 0 {
		return ""
	}
	guests := "guests with KVM"
	if opposite.WithoutKVM() {
		guests = "guests without KVM (useEmulation)"
	}
	return fmt.Sprintf(". %d of them report CPUs of %s: name the configuration of the cluster with --config FILE", len(reports), guests)
}

// judgePage judges VMs, and VMIs without a VM.
func (c *checker) judgePage(ctx context.Context, page []manifest.Object) error {
	page = slices.DeleteFunc(page, func(o manifest.Object) bool { return o.Fault == nil && o.MadeByVM() })
	in := c.in
	in.Named = page
	reviewed, err := c.bench.ReviewForAudit(ctx, in, false)
	if err != nil {
		return err
	}
	specs := map[string]*v1.VirtualMachineInstanceSpec{}
	for _, r := range reviewed.Objects {
		if r.Guest != nil && r.Guest.Explicit != nil {
			specs[r.Name()] = &r.Guest.Explicit.Spec
		}
	}
	for _, one := range page {
		if err := c.judgeGuest(one, specs[one.Name()]); err != nil {
			c.Unjudged = append(c.Unjudged, UnjudgedGuest{Name: one.NameOrFile(), Reason: err.Error()})
		}
	}
	return ctx.Err()
}

// judgeGuest judges a VM or VMI. spec is its guest as it would boot now; nil if admission would refuse it.
func (c *checker) judgeGuest(one manifest.Object, spec *v1.VirtualMachineInstanceSpec) error {
	if one.Fault != nil {
		return one.Fault
	}
	owner, written, err := readGuest(one)
	if err != nil {
		return err
	}
	hardware := c.hardwares[client.ObjectKeyFromObject(one)]
	if owner.Ownership(hardware) != ownership.Own || hardware.Spec.Hardware == nil || recordsAnew(hardware.Spec.Hardware.CPU, spec) {
		c.Unrecorded++
		return nil
	}
	cpu := hardware.Spec.Hardware.CPU
	if err := record.CheckCPU(cpu); err != nil {
		return fmt.Errorf("GuestHardware '%s': spec.hardware: %w", one.GetName(), err)
	}
	judged := c.fleet.Judge(cpu, fleet.PodOf(cmp.Or(spec, written)))
	g := Guest{Namespace: one.GetNamespace(), Kind: one.GetKind(), Name: one.GetName(), Requested: cpu.Requested, Model: cpu.Model,
		Offered: judged.Outlook(), Offering: append([]string{}, judged.Offering...), Lacking: groupLacking(judged.Lacking),
		Mitigations: append([]string{}, judged.Mitigations...), FirstSeen: cpu.FirstSeen, Verified: cpu.Verified, Text: judged.Describe()}
	if g.Offered == fleet.Unreported {
		g.Text = "no node that the guest may start on reports which CPUs it offers"
	}
	c.Guests = append(c.Guests, g)
	return nil
}

// recordsAnew reports whether the next boot records the CPU: none is recorded, or the spec asks for another model than the recorded boot.
func recordsAnew(cpu *record.CPU, spec *v1.VirtualMachineInstanceSpec) bool {
	return cpu == nil || cpu.Requested == v1alpha1.CPURequestedNone || spec != nil && spec.Domain.CPU != nil && spec.Domain.CPU.Model != cpu.Requested
}

// readGuest returns who the owner of a GuestHardware would be, and what is written of the guest.
func readGuest(one manifest.Object) (owner ownership.Guest, spec *v1.VirtualMachineInstanceSpec, err error) {
	if one.GetKind() == v1.VirtualMachineInstanceGroupVersionKind.Kind {
		vmi := &v1.VirtualMachineInstance{}
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(one.Unstructured.Object, vmi)
		return ownership.Guest{VMI: vmi.UID, Identity: vmi.Annotations[v1alpha1.AnnotationIdentity]}, &vmi.Spec, err
	}
	vm := &v1.VirtualMachine{}
	if err = runtime.DefaultUnstructuredConverter.FromUnstructured(one.Unstructured.Object, vm); err == nil && vm.Spec.Template == nil {
		err = errors.New("spec.template is missing")
	}
	if err != nil {
		return owner, nil, err
	}
	spec = &vm.Spec.Template.Spec
	spec.Architecture = cmp.Or(spec.Architecture, vm.Annotations[v1alpha1.AnnotationArchitecture])
	return ownership.GuestOf(vm), spec, nil
}

// groupLacking returns the nodes by what they lack.
func groupLacking(all []fleet.Lacking) []Lacking {
	groups, at := []Lacking{}, map[string]int{}
	for _, one := range all {
		missing := one.String()
		i, known := at[missing]
		if !known {
			i = len(groups)
			at[missing], groups = i, append(groups, Lacking{Missing: missing})
		}
		groups[i].Nodes = append(groups[i].Nodes, one.Node)
	}
	return groups
}

// sorted returns the check with the guests that need attention first.
func (c *checker) sorted() Check {
	order := []fleet.Outlook{fleet.Nowhere, fleet.Somewhere, fleet.Unreported, fleet.Everywhere}
	slices.SortStableFunc(c.Guests, func(a, b Guest) int {
		return cmp.Or(slices.Index(order, a.Offered)-slices.Index(order, b.Offered), strings.Compare(a.Namespace, b.Namespace),
			strings.Compare(a.Name, b.Name), strings.Compare(a.Kind, b.Kind))
	})
	slices.Sort(c.Warnings)
	c.Warnings = slices.Compact(c.Warnings)
	return c.Check
}
