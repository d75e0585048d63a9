package cli

import (
	"bytes"
	"fmt"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/policy"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// policyCompileRun is a run of 'policy compile'.
type policyCompileRun struct {
	cmdutil.Printer
	installed config.Installation
}

// policyCompileCommand returns 'policy compile'. It writes nothing into a cluster: an administrator keeps the ValidatingAdmissionPolicies in Git.
func policyCompileCommand(s *cmdutil.Session) *cobra.Command {
	o := &policyCompileRun{Printer: cmdutil.NewPrinter(s)}
	cmd := &cobra.Command{
		Use:   "compile DIR|FILE|-",
		Short: "Write GuestPolicies as ValidatingAdmissionPolicies",
		Long: "Write each GuestPolicy of a folder or file as a ValidatingAdmissionPolicy and its binding, which the API server evaluates also\n" +
			"while Kiln is down. This works for policies whose expressions read nothing but object, oldObject, params, namespaceObject,\n" +
			"request and variables. Of each other policy the command says why it cannot be written so, and where it does something else\n" +
			"than the GuestPolicy. Nothing is written into a cluster.\n\n" +
			"The exit status is 0 if all policies were written, 1 if one cannot be, and 2 if a file cannot be read or there is no policy.",
		Example: "  kubectl kiln policy compile policies/ > validating.yaml",
		Args:    cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&o.installed.Kiln, "kiln-namespace", "kiln-system", "namespace of Kiln, whose controller makes the VMIs of VMs")
	cmd.Flags().StringVar(&o.installed.KubeVirt, "kubevirt-namespace", "kubevirt", "namespace of KubeVirt, whose controller makes the VMIs of VMs")
	cmd.RunE = func(_ *cobra.Command, args []string) error { return o.run(args[0]) }
	return cmd
}

// run prints the policies of a folder or a file.
func (o *policyCompileRun) run(source string) (outcome error) {
	files, err := manifest.ReadFolder(source, o.In)
	if err != nil {
		return err
	}
	controllers := config.Default().InstalledIn(o.installed).Limits.Controllers
	found := 0
	for _, file := range files {
		for _, one := range file.Objects(&manifest.Positions{}) {
			if one.Fault != nil {
				return one.Fault
			}
			if one.GroupVersionKind() != v1alpha1.GroupVersion.WithKind(v1alpha1.KindGuestPolicy) {
				continue
			}
			found++
			if err := one.CheckSchema(); err != nil {
				return err
			}
			var of v1alpha1.GuestPolicy
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(one.Object, &of); err != nil {
				return fmt.Errorf("%s: %w", one.File(), err)
			}
			written, mistakes := policy.AsValidatingPolicy(&of, controllers)
			if mistakes = append(one.Mistakes, mistakes...); len(mistakes) > 0 {
				outcome = cmdutil.ErrRejected
				for _, mistake := range mistakes {
					fmt.Fprintln(o.ErrOut, cmdutil.Printable(fmt.Sprintf("GuestPolicy '%s' cannot be a ValidatingAdmissionPolicy: %s", of.Name, mistake)))
				}
				continue
			}
			for _, note := range written.Notes {
				fmt.Fprintln(o.ErrOut, cmdutil.Printable(fmt.Sprintf("Note: ValidatingAdmissionPolicy '%s': %s", of.Name, note)))
			}
			if err := o.printDocuments(written.Policy, written.Binding); err != nil {
				return err
			}
		}
	}
	if found == 0 {
		return fmt.Errorf("no GuestPolicy in %s", source)
	}
	return outcome
}

// printDocuments prints objects as YAML documents, without the fields that only a cluster sets.
func (o *policyCompileRun) printDocuments(objects ...any) error {
	for _, object := range objects {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			return err
		}
		unstructured.RemoveNestedField(content, "status")
		unstructured.RemoveNestedField(content, "metadata", "creationTimestamp")
		raw, err := yaml.Marshal(content)
		if err != nil {
			return err
		}
		if _, err := o.Out.Write(append([]byte("---\n"), bytes.TrimLeft(raw, "\n")...)); err != nil {
			return err
		}
	}
	return nil
}
