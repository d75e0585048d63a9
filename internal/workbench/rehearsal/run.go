package rehearsal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
	"github.com/kilnvm/kiln/pkg/catalog"
	"golang.org/x/sync/errgroup"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// DefaultOwnerLabel is the label by which VMs are counted without --owner-label: Kubernetes' recommended label for the application that an object is a part
// of. The label app.kubernetes.io/managed-by names a tool, which thousands of VMs of many owners share.
const DefaultOwnerLabel = "app.kubernetes.io/part-of"

// Options are the parameters of a rehearsal.
type Options struct {
	Laid *Laid
	// OwnerLabel is the label of VMs by which owners are counted.
	OwnerLabel string
	// State keeps results between runs; nil for none.
	State *State
	// Progress is called after each page with the number of VMs that are done; nil for no calls.
	Progress func(done int)
	// Unshared judges each VM by itself. Tests compare the results, and results of another version of Kiln are of one VM.
	Unshared bool
}

// rehearser collects a rehearsal, page by page.
type rehearser struct {
	*Rehearsal
	options       Options
	before, after side
	// compare compares the guests of one VM: compareVM, or for another version of Kiln compareVersions.
	compare func(context.Context, manifest.Object) (*Result, error)
	keys    *keyer
	results map[string]*Result
	// changed are the changes by object, and newConfiguration reports that VMs would be pinned to another configuration.
	changed          map[catalog.Key]Change
	newConfiguration bool
	groups           map[string]*group
	seen             map[client.ObjectKey]bool
}

// OfDump rehearses changes for the VMs of a dump.
func OfDump(ctx context.Context, b *workbench.Bench, dump *manifest.Dump, o Options) (*Rehearsal, error) {
	h, err := newRehearser(ctx, b, dump.Inputs, o)
	if err != nil {
		return nil, err
	}
	return h.judgeDump(ctx, dump)
}

// judgeDump judges the VMs of a dump.
func (h *rehearser) judgeDump(ctx context.Context, dump *manifest.Dump) (*Rehearsal, error) {
	for _, object := range dump.Named {
		if object.Fault != nil {
			h.Unjudged = append(h.Unjudged, unreadable(object))
		}
	}
	if n := dump.NoObjects; n > 0 {
		h.Warnings = append(h.Warnings, fmt.Sprintf("items of lists that are no objects of Kubernetes: %d. They were left out; the first one is at %s", n,
			dump.FirstNoObject))
	}
	for page := dump.NextGuests(manifest.PageSize); len(page) > 0; page = dump.NextGuests(manifest.PageSize) {
		if err := h.judgePage(ctx, page); err != nil {
			return nil, err
		}
	}
	return h.finish()
}

// unreadable returns an object or a file that cannot be read. The reason does not name it again.
func unreadable(object manifest.Object) Unknown {
	name := object.NameOrFile()
	return Unknown{name, strings.TrimPrefix(object.Fault.Error(), name+": ")}
}

// OfCluster rehearses changes for the VMs of a namespace, or of all namespaces if it is empty. It only reads.
func OfCluster(ctx context.Context, b *workbench.Bench, cluster client.Reader, namespace string, o Options) (*Rehearsal, error) {
	reader := objects.Served{Reader: newNearby(objects.Remember(cluster))}
	h, err := newRehearser(ctx, b, manifest.Inputs{Reader: reader, OfCluster: true}, o)
	if err != nil {
		return nil, err
	}
	err = manifest.EachPage(ctx, cluster, v1.VirtualMachineGroupVersionKind, namespace, func(page []manifest.Object) error { return h.judgePage(ctx, page) })
	if err != nil {
		return nil, err
	}
	return h.finish()
}

// newRehearser reads the settings before and after the changes, and judges the changes themselves.
func newRehearser(ctx context.Context, b *workbench.Bench, in manifest.Inputs, o Options) (*rehearser, error) {
	if o.Laid == nil {
		o.Laid = &Laid{}
	}
	o.OwnerLabel = cmp.Or(o.OwnerLabel, DefaultOwnerLabel)
	began := time.Now()
	if b.Now != nil {
		began = b.Now()
	}
	now := func() time.Time { return began } // all VMs are judged at one time
	reader, changes, err := o.Laid.lay(ctx, in.Reader)
	if err != nil {
		return nil, err
	}
	h := &rehearser{
		Rehearsal: &Rehearsal{Changes: changes, Counts: map[Verdict]int{}, Installed: map[Verdict]int{}, OwnerLabel: o.OwnerLabel, Groups: []Group{}, VMs: []VM{},
			Unjudged: []Unknown{}, Warnings: []string{}},
		options: o, results: map[string]*Result{}, changed: map[catalog.Key]Change{}, groups: map[string]*group{}, seen: map[client.ObjectKey]bool{},
		before: side{bench: b.Afresh(), in: in}, after: side{bench: b.Afresh(), in: in},
	}
	h.after.in.Reader, h.compare = reader, h.compareVM
	if version := o.Laid.kubevirt; version != 0 {
		h.after.bench.KubeVirtVersion = version
	}
	for _, at := range []side{h.before, h.after} {
		at.bench.Now, at.bench.Strict, at.bench.Undocumented = now, false, true
		if !o.Laid.has(kindHostProfile) {
			at.bench.IgnoreProfiles() // they set nothing that a guest sees
		}
		warnings, err := at.bench.FixSettings(ctx, at.in)
		if err != nil {
			return nil, err
		}
		h.Warnings = append(h.Warnings, warnings...)
	}
	if err := h.readConfigurations(ctx); err != nil {
		return nil, err
	}
	if err := h.judgeChanges(ctx); err != nil {
		return nil, err
	}
	for _, change := range h.Changes {
		h.changed[change.Key] = change
	}
	return h, h.openState(ctx)
}

// readConfigurations compares the configurations, and prepares the keys of VMs.
func (h *rehearser) readConfigurations(ctx context.Context) error {
	was, _, err := h.before.bench.Configuration(ctx, h.before.in)
	if err != nil {
		return err
	}
	is, _, err := h.after.bench.Configuration(ctx, h.after.in)
	if err != nil {
		return err
	}
	h.newConfiguration = !sameDefaults(was.Cluster, is.Cluster)
	if was.Limits.KubeVirtGuests {
		h.KubeVirt = was.Limits.Version.Nearest().String()
	}
	if is.Limits.KubeVirtGuests {
		h.KubeVirtAfter = is.Limits.Version.Nearest().String()
	}
	if version := h.options.Laid.kubevirt; version != 0 {
		if !was.Limits.KubeVirtGuests {
			return errors.New("kubevirt=: KubeVirt does not run the guests: the dump or the cluster has no KubeVirt with a virt-controller; use --runtime kubevirt")
		}
		if h.KubeVirt != h.KubeVirtAfter {
			h.Changes = append(h.Changes, Change{Key: catalog.Key{Kind: v1.KubeVirtGroupVersionKind.Kind, Name: h.KubeVirtAfter}, Action: Changed,
				Source: "kubevirt=" + h.KubeVirtAfter})
		}
	}
	h.keys = &keyer{before: h.before.in.Reader, after: h.after.in.Reader, contents: map[string]string{}, namespaces: map[string]string{}}
	h.keys.profiles = h.options.Laid.has(kindHostProfile)
	for _, at := range []side{h.before, h.after} {
		policies, _, err := at.bench.GuestPolicies(ctx, at.in)
		if err != nil {
			return err
		}
		h.keys.exact = h.keys.exact || len(policies) > 0
		var list v1alpha1.ClusterGuestProfileList
		if err := at.in.Reader.List(ctx, &list); err == nil {
			selects := func(p v1alpha1.ClusterGuestProfile) bool { return p.Spec.NamespaceSelector != nil }
			h.keys.labels = h.keys.labels || slices.ContainsFunc(list.Items, selects)
			h.keys.profiles = h.keys.profiles || len(list.Items) > 0
		}
	}
	if !h.keys.exact { // an expression of a policy may read the UID of an instancetype
		for _, at := range []*side{&h.before, &h.after} {
			at.in.Reader = byContent{at.in.Reader}
			at.bench.Memoize()
		}
	}
	return nil
}

// judgeChanges reviews the changed objects as the webhook does, because a cluster would not take refused ones.
func (h *rehearser) judgeChanges(ctx context.Context) error {
	in := h.after.in
	in.Named = nil
	for _, one := range h.options.Laid.objects {
		in.Named = append(in.Named, one.Object)
	}
	if len(in.Named) == 0 {
		return nil
	}
	all, err := h.after.bench.Review(ctx, in, nil)
	if err != nil {
		return err
	}
	var refused []error
	for _, r := range all.Objects {
		switch {
		case r.Fault != nil:
			refused = append(refused, r.Fault)
		case !r.Verdict.Allowed():
			refused = append(refused, fmt.Errorf("%s: %s is refused: %w", r.File(), r.Object.Name(), r.Verdict.Errors.ToAggregate()))
		}
	}
	return errors.Join(refused...)
}

// judgePage judges the VMs of a page. Other objects, and VMs that were judged already, are left out.
func (h *rehearser) judgePage(ctx context.Context, page []manifest.Object) error {
	var jobs []*job
	byKey := map[string]*job{}
	for _, object := range page {
		if object.Fault != nil {
			h.Unjudged = append(h.Unjudged, unreadable(object))
			continue
		}
		name := client.ObjectKeyFromObject(object)
		switch {
		case object.GetKind() != v1.VirtualMachineGroupVersionKind.Kind:
			continue
		case h.seen[name]:
			h.Unjudged = append(h.Unjudged, Unknown{object.Name(), "the dump has another VM of this name: rehearse the dumps of several clusters one by one"})
			continue
		}
		h.seen[name] = true
		one := &job{object: object}
		jobs = append(jobs, one)
		if h.options.Unshared {
			continue
		}
		var err error
		if one.key, err = h.keys.keyOf(ctx, object); err != nil {
			return fmt.Errorf("%s: %w", object.Name(), err)
		}
		if one.key == "" {
			continue
		}
		if one.result = h.results[one.key]; one.result == nil {
			if one.like = byKey[one.key]; one.like == nil {
				byKey[one.key] = one
			}
		}
	}
	if err := h.judgeJobs(ctx, jobs, func(j *job) bool { return j.result == nil && j.like == nil }); err != nil {
		return err
	}
	for _, one := range jobs {
		if one.like != nil && one.like.shared {
			one.result = one.like.result
		}
	}
	if err := h.judgeJobs(ctx, jobs, func(j *job) bool { return j.result == nil }); err != nil {
		return err
	}
	for _, one := range jobs {
		if one.shared && one.key != "" {
			h.results[one.key] = one.result
		}
		h.addResult(one.object, one.result)
	}
	if h.options.Progress != nil {
		h.options.Progress(len(h.VMs))
	}
	if err := h.saveState(false); err != nil {
		return err
	}
	return ctx.Err()
}

// job is a VM of a page.
type job struct {
	object manifest.Object
	// key is the key of the VM; empty if the VM is judged by itself. like is an earlier VM of the page with this key.
	key    string
	like   *job
	result *Result
	// shared reports that VMs with this key may have the result.
	shared bool
}

// judgeJobs judges the wanted jobs, several at a time. A cluster is read by one at a time.
func (h *rehearser) judgeJobs(ctx context.Context, jobs []*job, wanted func(*job) bool) error {
	workers := runtime.GOMAXPROCS(0)
	if h.before.in.OfCluster {
		workers = 1
	}
	run, ctx := errgroup.WithContext(ctx)
	run.SetLimit(workers)
	for _, one := range jobs {
		if !wanted(one) {
			continue
		}
		h.Computed++
		run.Go(func() (err error) {
			if one.result, err = h.judgeVM(ctx, one.object); err != nil {
				return fmt.Errorf("%s: %w", one.object.Name(), err)
			}
			one.shared = one.result.canShare(one.object)
			return nil
		})
	}
	return run.Wait()
}

// canShare reports whether VMs of the same content may have a result. A result without a verdict names its VM, and so may the message of a rule.
func (r *Result) canShare(of manifest.Object) bool {
	if r.Verdict == Unjudged {
		return false
	}
	for _, refusal := range slices.Concat(r.Refusals, r.Before) {
		for _, own := range []string{of.GetName(), of.GetNamespace(), string(of.GetUID())} {
			if own != "" && (strings.Contains(refusal.Message, own) || strings.Contains(refusal.Field, own)) {
				return false
			}
		}
	}
	for _, change := range r.Changes {
		if strings.Contains(change.Text+change.Device, of.GetName()) || address.MatchString(change.Text) || identifier.MatchString(change.Text) {
			return false
		}
	}
	return true
}

// finish sorts the rehearsal, and writes the state.
func (h *rehearser) finish() (*Rehearsal, error) {
	h.sortGroups()
	slices.SortFunc(h.VMs, func(a, b VM) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	slices.SortFunc(h.Plan, func(a, b PlanItem) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	slices.SortFunc(h.Unjudged, func(a, b Unknown) int {
		return cmp.Or(strings.Compare(a.What, b.What), strings.Compare(a.Reason, b.Reason))
	})
	slices.Sort(h.Warnings)
	h.Warnings = slices.Compact(h.Warnings)
	for verdict, n := range h.Counts {
		if verdict != Unjudged {
			h.Judged += n
		}
	}
	return h.Rehearsal, h.saveState(true)
}

// sortedCounts returns counts, the largest first.
func sortedCounts(of map[string]int) []Count {
	counts := make([]Count, 0, len(of))
	for _, name := range slices.Sorted(maps.Keys(of)) {
		counts = append(counts, Count{name, of[name]})
	}
	slices.SortStableFunc(counts, func(a, b Count) int { return b.VMs - a.VMs })
	return counts
}
