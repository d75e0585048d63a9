package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/internal/cli/guestcmd"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/kilnvm/kiln/internal/workbench/guestdiff"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
	"github.com/kilnvm/kiln/internal/workbench/repin"
	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// repinRun is a run of 'repin'.
type repinRun struct{ cmdutil.Inputs }

// 'repin' requests new pins by an empty value in the annotation kilnvm.io/pins. The webhook sets the current revisions in the same request, so a dry run
// of the API server already returns them, and the command does not wait for a controller.

// repinOptions are the flags of one call, and the cluster.
type repinOptions struct {
	// keys are the keys of the annotation kilnvm.io/pins to renew; none means all.
	keys []string
	// cpu has the next boots record the CPU anew, in the place of pins.
	cpu bool
	// dryRun sends only the request with a dry run.
	dryRun cmdutil.DryRun
	// cluster is set when the command runs. The inputs have only a reader, and a patch needs a writer.
	cluster client.Client
}

// repinCommand returns 'repin'. It reads VMs only from a cluster, because a file has no pins.
// The exit status is 1 if a VM is rejected, now or with the new pins, and 2 for a fault: a VM that was edited meanwhile, a pin for which the VM has no
// reference, or no webhook that processes the request. Unlike 'diff', it does not return the verdict of the difference.
func repinCommand(s *cmdutil.Session) *cobra.Command {
	o := &repinRun{cmdutil.NewInputs(s)}
	cmd := &cobra.Command{
		Use:   "repin vm/NAME ... | --plan FILE",
		Short: "Pin VMs to the current revisions of instancetype, preference, presets, profiles and configuration",
		Long:  "Pin VMs to the current revisions of all that they are made of, and show the changes at their next start; or follow a rehearsed plan.",
		Example: "  kubectl kiln repin vm/web -n shop --dry-run\n" +
			"  kubectl kiln repin --plan plan.json --only same,live --max 50 --wait 10m --stop-on-difference",
		Args: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("plan") {
				return cobra.NoArgs(cmd, args)
			}
			return cobra.MinimumNArgs(1)(cmd, args)
		},
	}
	instancetype := cmd.Flags().Bool("instancetype", false, "pin only the instancetype")
	preference := cmd.Flags().Bool("preference", false, "pin only the preference")
	presets := cmd.Flags().Bool("presets", false, "pin only the presets")
	profiles := cmd.Flags().Bool("profiles", false, "pin only the GuestProfiles and ClusterGuestProfiles")
	configuration := cmd.Flags().Bool("configuration", false, "pin only the configuration of the cluster")
	var r repinOptions
	cmd.Flags().BoolVar(&r.cpu, "cpu", false, "record the CPU anew at the next start, and pin nothing; needs the right to 'administer' guesthardwares")
	for _, pin := range []string{"instancetype", "preference", "presets", "profiles", "configuration"} {
		cmd.MarkFlagsMutuallyExclusive("cpu", pin)
	}
	cmdutil.AddDryRun(cmd, &r.dryRun)
	plan := addPlanFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		for _, pin := range []struct {
			key    string
			wanted bool
		}{
			{"instancetype", *instancetype}, {"preference", *preference}, {"presets", *presets}, {"profiles", *profiles}, {"configuration", *configuration},
		} {
			if pin.wanted {
				r.keys = append(r.keys, pin.key)
			}
		}
		if err := plan.check(cmd); err != nil {
			return err
		}
		if plan.file != "" {
			return o.followPlan(cmd.Context(), plan, bool(r.dryRun))
		}
		return o.List(func() error { return o.repinAll(cmd.Context(), args, r) })
	}
	o.AddContext(cmd)
	o.AddOutput(cmd, "text", "text", "json", "yaml")
	o.Answers(cmd, "Repinned", repin.Repinned{})
	o.Answers(cmd, "RepinnedPlan", repin.Planned{})
	return cmd
}

// maxConflicts is how often repinning one VM is tried if the VM is changed meanwhile.
const maxConflicts = 5

// repinAll renews the pins of each VM in turn. After a refused VM it goes on with the next one; after a fault it stops.
// VMs that were repinned before a fault keep their new pins, because each VM is a separate request.
func (o *repinRun) repinAll(ctx context.Context, args []string, r repinOptions) error {
	in, err := o.Load(o.Files, args)
	if err != nil {
		return err
	}
	if r.cluster, err = o.WarningClient(); err != nil {
		return err
	}
	o.Bench.IgnoreProfiles() // VMs are not pinned to HostProfiles, and these set nothing that a guest sees
	if r.dryRun {
		in.Reader = objects.Remember(in.Reader) // nothing is written, and many VMs refer to the same objects
	}
	var rejected error
	for _, named := range in.Named {
		if named.GetKind() != "VirtualMachine" {
			return fmt.Errorf("%s '%s' has no pins of its own: name a VirtualMachine", named.GetKind(), named.GetName())
		}
		one := in
		one.Named = []manifest.Object{named}
		err := o.repinOne(ctx, one, r)
		for tries := 1; apierrors.IsConflict(err) && tries < maxConflicts; tries++ {
			// Nothing is printed yet. The difference is computed again from the current VM. Mostly, the controller has changed its status.
			if err = r.cluster.Get(ctx, client.ObjectKeyFromObject(named), named.Unstructured); err == nil {
				err = o.repinOne(ctx, one, r)
			}
		}
		switch {
		case apierrors.IsInvalid(err):
			rejected = o.refusedByCluster(named, err)
		case errors.Is(err, cmdutil.ErrRejected):
			rejected = err
		case err != nil:
			return fmt.Errorf("%s: %w", named.GetName(), err)
		}
	}
	return rejected
}

// refusedByCluster prints the causes for which the webhook refuses the new pins. It returns ErrRejected.
// In JSON and YAML, the causes of the Status are a Judgement without lines, so that programs read them like the rejection of a file.
func (o *repinRun) refusedByCluster(named manifest.Object, err error) error {
	var status apierrors.APIStatus
	if !o.Documents || !errors.As(err, &status) {
		fmt.Fprintln(o.ErrOut, cmdutil.Printable(err.Error()))
		return cmdutil.ErrRejected
	}
	j := workbench.Judgement{Object: named.Name(), Causes: []workbench.Cause{}, Warnings: []string{}}
	if details := status.Status().Details; details != nil {
		for _, c := range details.Causes {
			j.Causes = append(j.Causes, workbench.Cause{Type: string(c.Type), Field: c.Field, Message: c.Message})
		}
	}
	return o.PrintJudgement(j)
}

// repinOne first requests the new pins in a dry run, and compares the VMI that would boot with the VMI that boots now. It does not change a VM whose
// instancetype does not exist, or that could not start with the new pins.
func (o *repinRun) repinOne(ctx context.Context, in manifest.Inputs, r repinOptions) error {
	before, err := o.reviewOneVM(ctx, in)
	if err != nil {
		return err
	}
	if r.cpu {
		return o.repinCPU(ctx, before, r)
	}
	if err := repin.CheckReferences(before, r.keys); err != nil {
		return err
	}
	named := in.Named[0].Unstructured
	planned, err := repin.Repin(ctx, r.cluster, named, r.keys, client.DryRunAll)
	if err != nil {
		return err
	}
	in.Named = []manifest.Object{{Unstructured: planned}}
	after, err := o.reviewOneVM(ctx, in)
	if err != nil {
		return err
	}
	difference, err := o.ReportDifference(guestdiff.Compare(ctx, &o.Bench, guestdiff.Side{Reviewed: before}, guestdiff.Side{Reviewed: after}))
	if err != nil {
		return err
	}
	// The printed pins are the pins that the second request stored, not the dry run, because an object may have been edited between the two.
	result := planned
	if !r.dryRun {
		if result, err = repin.Repin(ctx, r.cluster, named, r.keys); err != nil {
			return err
		}
	}
	answer, warnings, err := repin.ReadPins(ctx, &o.Bench, before, result)
	o.Warn(warnings...)
	if err != nil {
		return err
	}
	answer.DryRun, answer.Difference = bool(r.dryRun), difference
	return o.printRepinned(answer)
}

// repinCPU shows what the guest may notice of another CPU, and has its next boot record the CPU anew.
func (o *repinRun) repinCPU(ctx context.Context, vm workbench.Reviewed, r repinOptions) error {
	hardware, answer, err := repin.PlanCPU(ctx, &o.Bench, r.cluster, vm)
	if err == nil && !r.dryRun {
		err = repin.ForgetCPU(ctx, r.cluster, hardware)
	}
	if err != nil {
		return err
	}
	answer.DryRun = bool(r.dryRun)
	if err := o.printRepinned(answer); err != nil || r.dryRun {
		return err
	}
	waits, err := repin.WaitsForNode(ctx, r.cluster, client.ObjectKeyFromObject(hardware))
	if waits {
		o.Warn(fmt.Sprintf("the guest waits for a node with the CPU of before: 'kubectl delete vmi %s -n %s' has it start with another one", hardware.Name,
			hardware.Namespace))
	}
	return err
}

// reviewOneVM reviews inputs with one VM. It fails if the VM has no template, because there is no VMI to compare.
func (o *repinRun) reviewOneVM(ctx context.Context, in manifest.Inputs) (workbench.Reviewed, error) {
	all, err := o.ReviewInputs(ctx, in, nil)
	if err != nil {
		return workbench.Reviewed{}, err
	}
	found, err := o.BootableGuests(all)
	if err == nil && len(found) == 0 {
		err = errors.New("it has no template")
	}
	if err != nil {
		return workbench.Reviewed{}, err
	}
	return found[0], nil
}

// printRepinned prints the pins before and after, and the changes at the next start.
func (o *repinRun) printRepinned(r repin.Repinned) error {
	if o.Output != "text" {
		return o.Print(r)
	}
	title := r.Object
	if r.DryRun {
		title += " (dry run)"
	}
	fmt.Fprintln(o.Out, cmdutil.Printable(title))
	o.printPin("instancetype", r.Instancetype)
	o.printPin("preference", r.Preference)
	o.printPin("presets", r.Presets)
	o.printPin("profiles", r.Profiles)
	o.printPin("configuration", r.Configuration)
	if r.CPU != nil {
		fmt.Fprintf(o.Out, "  cpu: %s -> the CPU of the node of the next boot\n", cmdutil.Printable(r.CPU.Before))
	}
	fmt.Fprint(o.Out, "at the next start: ")
	guestcmd.WriteDifference(o.Out, r.Difference)
	return nil
}

// printPin prints the change of one pin. It prints nothing for nil.
func (o *repinRun) printPin(what string, r *repin.PinChange) {
	if r == nil {
		return
	}
	// Printable, because tenants may write the annotation of pins.
	before, after := cmdutil.Printable(cmp.Or(r.Before, "none")), cmdutil.Printable(cmp.Or(r.After, "none"))
	if before == after {
		fmt.Fprintf(o.Out, "  %s: %s, unchanged\n", what, after)
	} else {
		fmt.Fprintf(o.Out, "  %s: %s -> %s\n", what, before, after)
	}
}
