package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/pin"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/instancetype"
	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// repinned is what 'repin -o json' prints for each VM.
type repinned struct {
	Object       string `json:"object"`
	DryRun       bool   `json:"dryRun"`
	Instancetype *repin `json:"instancetype,omitempty"`
	Preference   *repin `json:"preference,omitempty"`
	// Presets and Configuration are what the guest gets without naming it; names of several are separated by commas.
	Presets       *repin `json:"presets,omitempty"`
	Configuration *repin `json:"configuration,omitempty"`
	// Difference is what the next start will change.
	Difference difference `json:"difference"`
}

// repin is the revision of a size or preference.
type repin struct {
	Before string `json:"before"`
	After  string `json:"after"`
}

func repinCommand(o *options) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "repin vm/NAME ...",
		Short: "Pin VMs to their size, preference, presets and the configuration as these are now",
		Long: "Pin VMs to their size, preference, presets and the cluster's configuration as these are now, and show what that changes\n" +
			"at their next start. Until then, and without it, a VM keeps those that it was created with, whatever became of them.",
		Example: "  kubectl kiln repin vm/web -n shop --dry-run\n" +
			"  kubectl kiln repin vm/web --instancetype",
		Args: cobra.MinimumNArgs(1),
	}
	size := cmd.Flags().Bool("instancetype", false, "pin the instancetype alone")
	preference := cmd.Flags().Bool("preference", false, "pin the preference alone")
	presets := cmd.Flags().Bool("presets", false, "pin the presets alone")
	configuration := cmd.Flags().Bool("configuration", false, "pin the configuration of the cluster alone")
	dry := cmd.Flags().Bool("dry-run", false, "ask the cluster and change nothing")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var keys []string
		for key, wanted := range map[string]bool{"instancetype": *size, "preference": *preference, "presets": *presets, "configuration": *configuration} {
			if wanted {
				keys = append(keys, key)
			}
		}
		return o.repin(cmd.Context(), args, keys, *dry)
	}
	o.addContext(cmd)
	o.addOutput(cmd, "text", "text", "json", "yaml")
	return cmd
}

func (o *options) repin(ctx context.Context, args, keys []string, dry bool) error {
	in, err := o.load(ctx, args)
	if err != nil {
		return err
	}
	o.settings.profiles = &[]v1alpha1.HostProfile{} // whatever they say, the guest does not see it
	var rejected error
	for _, named := range in.named {
		if named.GetKind() != "VirtualMachine" {
			return fmt.Errorf("%s '%s' has no pins of its own: name a VirtualMachine", named.GetKind(), named.GetName())
		}
		one := in
		one.named = []object{named}
		switch err := o.repinOne(ctx, one, keys, dry); {
		case apierrors.IsInvalid(err):
			rejected = o.refused(named, err)
		case errors.Is(err, ErrRejected):
			rejected = err
		case err != nil:
			return fmt.Errorf("%s: %w", named.GetName(), err)
		}
	}
	return rejected
}

// refused tells why the cluster refuses an object.
func (o *options) refused(named object, err error) error {
	var status apierrors.APIStatus
	if !o.documents || !errors.As(err, &status) {
		fmt.Fprintln(o.ErrOut, err)
		return ErrRejected
	}
	j := judgement{Object: named.name(), Causes: []cause{}, Warnings: []string{}}
	if details := status.Status().Details; details != nil {
		for _, c := range details.Causes {
			j.Causes = append(j.Causes, cause{Type: string(c.Type), Field: c.Field, Message: c.Message})
		}
	}
	return o.printRejection(j)
}

// repinOne asks in a dry run first, so that a VM which would lose its size, or could not start any more, stays as it is.
func (o *options) repinOne(ctx context.Context, in inputs, keys []string, dry bool) error {
	before, err := o.alone(ctx, in)
	if err != nil {
		return err
	}
	for _, key := range keys {
		if key == "instancetype" && before.vm.Spec.Instancetype == nil || key == "preference" && before.vm.Spec.Preference == nil {
			return fmt.Errorf("it has no %s to pin", key)
		}
	}
	asked := in
	planned, err := ask(ctx, in, keys, client.DryRunAll)
	if err != nil {
		return err
	}
	asked.named = []object{{Unstructured: planned}}
	after, err := o.alone(ctx, asked)
	if err != nil {
		return err
	}
	answer := repinned{Object: before.name(), DryRun: dry}
	if answer.Difference, err = o.contrast(side{guest: before}, side{guest: after}); err != nil {
		return err
	}
	result := planned
	if !dry {
		if result, err = ask(ctx, in, keys); err != nil {
			return err
		}
	}
	was, is := pin.Read(in.named[0]), pin.Read(result)
	if before.vm.Spec.Instancetype != nil {
		answer.Instancetype = &repin{was.Instancetype, is.Instancetype}
	}
	if before.vm.Spec.Preference != nil {
		answer.Preference = &repin{was.Preference, is.Preference}
	}
	if was.Presets != nil || is.Presets != nil {
		answer.Presets = &repin{strings.Join(was.Presets, ","), strings.Join(is.Presets, ",")}
	}
	if err := o.differs(ctx, in, was, is); err != nil {
		return err
	}
	if is.Configuration != "" {
		answer.Configuration = &repin{was.Configuration, is.Configuration}
	}
	return o.printRepinned(answer)
}

// differs warns where a new pin of the configuration is not what is read here: the difference is then not told by it.
func (o *options) differs(ctx context.Context, in inputs, was, is v1alpha1.Pins) error {
	now, err := o.configuration(ctx, in)
	if err != nil || is.Configuration == was.Configuration {
		return err
	}
	object, err := config.Snapshot(now.Defaults)
	if err != nil {
		return err
	}
	snapshot, err := instancetype.Take(object)
	if err == nil && snapshot.Name != is.Configuration {
		fmt.Fprintln(o.ErrOut, "Warning: the webhook has another configuration than the one that is read here, so that the difference does not tell what it changes; --config FILE names the webhook's")
	}
	return err
}

// alone is the only object of inputs as a guest.
func (o *options) alone(ctx context.Context, in inputs) (guest, error) {
	all, err := o.judge(ctx, in, stageOne{})
	if err != nil {
		return guest{}, err
	}
	found, err := o.explicit(all)
	if err == nil && len(found) == 0 {
		err = errors.New("it has no guest")
	}
	if err != nil {
		return guest{}, err
	}
	return found[0], nil
}

// ask writes the wish for new pins, unless the VM has changed meanwhile, and returns the VM with the answer of admission.
func ask(ctx context.Context, in inputs, keys []string, options ...client.PatchOption) (*unstructured.Unstructured, error) {
	before := in.named[0].Unstructured
	after := before.DeepCopy()
	if err := pin.Ask(after, keys...); err != nil {
		return nil, err
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := in.cluster.Patch(ctx, after, patch, options...); err != nil {
		return nil, err
	}
	if pin.Unanswered(after) {
		return nil, errors.New("nobody has answered the wish for a new pin: does the VM have an instancetype or preference, and does Kiln's webhook run?")
	}
	return after, nil
}

func (o *options) printRepinned(r repinned) error {
	if o.output != "text" {
		return o.print(r)
	}
	fmt.Fprintf(o.Out, "%s%s\n", r.Object, map[bool]string{true: " (dry run)"}[r.DryRun])
	r.Instancetype.write(o, "instancetype")
	r.Preference.write(o, "preference")
	r.Presets.write(o, "presets")
	r.Configuration.write(o, "configuration")
	fmt.Fprint(o.Out, "at the next start: ")
	r.Difference.write(o.Out)
	return nil
}

func (r *repin) write(o *options, what string) {
	switch {
	case r == nil:
	case r.Before == r.After:
		fmt.Fprintf(o.Out, "  %s: %s, unchanged\n", what, cmp.Or(r.After, "none"))
	default:
		fmt.Fprintf(o.Out, "  %s: %s -> %s\n", what, cmp.Or(r.Before, "none"), cmp.Or(r.After, "none"))
	}
}
