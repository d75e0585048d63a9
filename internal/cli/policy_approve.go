package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/pkg/policy"
	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// policyApproveRun is a run of 'policy approve'.
type policyApproveRun struct {
	cmdutil.Inputs
	policies []string
	dryRun   cmdutil.DryRun
}

// policyApproveCommand returns 'policy approve'.
func policyApproveCommand(s *cmdutil.Session) *cobra.Command {
	o := &policyApproveRun{Inputs: cmdutil.NewInputs(s)}
	cmd := &cobra.Command{
		Use:   "approve NAME",
		Short: "Approve a GuestPolicyException",
		Long: "Approve a GuestPolicyException for the policies that it names. You must be among spec.exceptions.approvers of each of them, and\n" +
			"you must not have requested the exception. The approval is for the exception as the command prints it: a later change of its\n" +
			"spec makes the approval void.\n\n" +
			"The exit status is 0 if the exception is approved, 1 if admission refuses the approval, and 2 for a fault.",
		Example: "  kubectl kiln policy approve big-until-friday -n team-a\n" +
			"  kubectl kiln policy approve big-until-friday -n team-a --policy team-limits --dry-run",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return o.approve(cmd.Context(), args[0]) },
	}
	cmd.Flags().StringSliceVar(&o.policies, "policy", nil, "approve only for this policy. Default: all policies of the exception")
	cmdutil.AddDryRun(cmd, &o.dryRun)
	o.AddContext(cmd)
	return cmd
}

// approve adds the approvals that the exception lacks. The API server refuses them if somebody has changed the exception since it was read.
func (o *policyApproveRun) approve(ctx context.Context, name string) error {
	cluster, err := o.WarningClient()
	if err != nil {
		return err
	}
	namespace, err := o.Cluster.Namespace()
	if err != nil {
		return err
	}
	var read v1alpha1.GuestPolicyException
	if err := cluster.Get(ctx, client.ObjectKey{Namespace: namespace, Name: strings.TrimPrefix(name, "guestpolicyexception/")}, &read); err != nil {
		return err
	}
	approved := read.DeepCopy()
	if err := o.addApprovals(approved); err != nil {
		return err
	}
	var options []client.SubResourcePatchOption
	if o.dryRun {
		options = append(options, client.DryRunAll)
	}
	err = cluster.Status().Patch(ctx, approved, client.MergeFromWithOptions(&read, client.MergeFromWithOptimisticLock{}), options...)
	switch {
	case apierrors.IsInvalid(err):
		fmt.Fprintln(o.ErrOut, cmdutil.Printable(err.Error()))
		return cmdutil.ErrRejected
	case apierrors.IsConflict(err):
		return fmt.Errorf("the exception has changed since it was read: read it, and try again: %w", err)
	case err != nil:
		return err
	}
	o.printApproved(approved)
	return nil
}

// addApprovals adds an approval for each of the policies. An older approval of such a policy is replaced if it is for another generation.
func (o *policyApproveRun) addApprovals(of *v1alpha1.GuestPolicyException) error {
	wanted := o.policies
	for _, named := range of.Spec.Policies {
		if len(o.policies) == 0 {
			wanted = append(wanted, named.Name)
		}
	}
	for _, name := range wanted {
		if !slices.ContainsFunc(of.Spec.Policies, func(named v1alpha1.GuestPolicyExceptionPolicy) bool { return named.Name == name }) {
			return fmt.Errorf("the exception does not name GuestPolicy '%s'", name)
		}
		of.Status.Approvals = slices.DeleteFunc(of.Status.Approvals, func(given v1alpha1.GuestPolicyExceptionApproval) bool {
			return given.Policy == name && given.Generation != of.Generation
		})
		if !slices.ContainsFunc(of.Status.Approvals, func(given v1alpha1.GuestPolicyExceptionApproval) bool { return given.Policy == name }) {
			of.Status.Approvals = append(of.Status.Approvals, v1alpha1.GuestPolicyExceptionApproval{Policy: name, Generation: of.Generation})
		}
	}
	return nil
}

// printApproved prints what was approved. Tenants wrote most of it.
func (o *policyApproveRun) printApproved(of *v1alpha1.GuestPolicyException) {
	say := func(format string, args ...any) { fmt.Fprintln(o.Out, cmdutil.Printable(fmt.Sprintf(format, args...))) }
	suffix := ""
	if o.dryRun {
		suffix = " (server dry run)"
	}
	say("guestpolicyexception/%s approved%s", of.Name, suffix)
	for _, named := range of.Spec.Policies {
		validations := "all validations"
		if len(named.Validations) > 0 {
			validations = strings.Join(named.Validations, ", ")
		}
		say("  may violate:   GuestPolicy '%s': %s", named.Name, validations)
	}
	vms := strings.Join(of.Spec.VirtualMachines.Names, ", ")
	if selector := of.Spec.VirtualMachines.Selector; selector != nil {
		vms = "all with labels " + metav1.FormatLabelSelector(selector)
	}
	say("  VMs:           %s", vms)
	say("  until:         %s", policy.FormatExpiry(of.Spec.Expires.Time))
	say("  requested by:  %s", of.Spec.RequestedBy)
	say("  reason:        %s", of.Spec.Reason)
}
