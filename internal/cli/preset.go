package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/internal/cli/cmdutil/catalogsource"
	"github.com/kilnvm/kiln/internal/oci"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
	"github.com/kilnvm/kiln/internal/workbench/presetmigration"
	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// presetCommand returns 'preset', the commands for VirtualMachineInstancePresets.
func presetCommand(s *cmdutil.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "preset",
		Short:   "Migrate VirtualMachineInstancePresets to GuestProfiles",
		Example: "  kubectl kiln preset migrate -n shop --output-dir profiles/",
		Long: "Migrate VirtualMachineInstancePresets to GuestProfiles. KubeVirt deprecated presets; Kiln applies them. A profile may set any\n" +
			"field of a VMI, has a priority, and extends other profiles.",
	}
	cmd.AddCommand(presetMigrateCommand(s))
	cmdutil.RefuseUnknown(cmd)
	return cmd
}

// migrateRun is a run of 'preset migrate'.
type migrateRun struct {
	cmdutil.Inputs
	presetmigration.Options
	// folder is the value of --output-dir; empty to print the manifests.
	folder        string
	allNamespaces bool
}

// presetMigrateCommand returns 'preset migrate'. It writes nothing to a cluster. The exit status is 2 for a fault, otherwise 3 if a VM or VMI would differ, and
// otherwise 1 if a preset is rejected or a VM cannot be compared because it refers to an object that does not exist.
func presetMigrateCommand(s *cmdutil.Session) *cobra.Command {
	m := migrateRun{Inputs: cmdutil.NewInputs(s)}
	cmd := &cobra.Command{
		Use:   "migrate [-f FILE|DIR|- | -k DIR]",
		Short: "Write a GuestProfile for each preset, and prove that no VMI changes",
		Long: "Write a GuestProfile for each preset of the files, or of a namespace of the cluster, and prove that no VMI changes: each VM and\n" +
			"VMI among them is made explicit with the presets and with the profiles, and both VMIs and both libvirt domains are compared\n" +
			"byte by byte. Nothing is written to the cluster.\n\n" +
			"A preset fills an area such as spec.domain.cpu only if a VMI has no field of it; a profile fills each field that is not set.\n" +
			"So a VM that has a part of an area may differ. Then the command prints the fields and the change that keeps its VMI, and the\n" +
			"exit status is 3. VMs that are pinned to presets keep them until 'kubectl kiln repin'.",
		Example: "  kubectl kiln preset migrate -f presets/ -f vms/ --catalog catalog/ > profiles.yaml\n" +
			"  kubectl kiln preset migrate -A --output-dir profiles/",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return m.runMigration(cmd.Context()) },
	}
	m.AddInputs(cmd)
	flags := cmd.Flags()
	flags.BoolVarP(&m.allNamespaces, "all-namespaces", "A", false, "migrate the presets of all namespaces of the cluster")
	flags.StringVar(&m.folder, "output-dir", "", "folder to write the profiles to, as NAMESPACE/NAME.yaml; it must not exist or be empty")
	flags.BoolVar(&m.Firmware, "firmware", false, "keep spec.domain.firmware, which presets fill only in VMIs without a VM, and profiles in VMs, too")
	m.AddOutput(cmd, "text", "text", "json", "yaml")
	m.Answers(cmd, "PresetMigration", presetmigration.Result{})
	return cmd
}

// runMigration reads, migrates and prints. Without -o, manifests are printed to standard output and the report to standard error.
func (m *migrateRun) runMigration(ctx context.Context) error {
	in, err := m.readInputs(ctx)
	if err != nil {
		return err
	}
	done, warnings, err := presetmigration.Migrate(ctx, &m.Bench, in, m.Options)
	m.Warn(warnings...)
	if err != nil {
		return err
	}
	outcome := m.printUnreadable(in)
	if len(done.Presets) == 0 && outcome == nil {
		if m.Files.Named() {
			return m.NothingFound("VirtualMachineInstancePreset", nil)
		}
		return errors.New("no VirtualMachineInstancePreset in the cluster's namespace: name another with -n, or all with -A")
	}
	// The report comes first: a folder that cannot be written must not cost the answer.
	if err := m.printMigrated(done); err != nil {
		return err
	}
	if m.folder != "" {
		if err := m.writeProfiles(done); err != nil {
			return err
		}
	}
	for _, guest := range done.Guests {
		if guest.Fault != nil {
			outcome = cmdutil.Worse(outcome, m.PrintUnanswered(guest.Fault))
		}
	}
	return cmdutil.Worse(outcome, outcomeOf(done))
}

// readInputs reads the objects of the files, or of the cluster if the user named none.
func (m *migrateRun) readInputs(ctx context.Context) (manifest.Inputs, error) {
	if m.Files.Named() {
		if m.allNamespaces {
			return manifest.Inputs{}, errors.New("-A is for the cluster: give either files with -f and -k, or -A")
		}
		return m.Load(m.Files, nil)
	}
	namespace, err := m.Cluster.Namespace()
	if err != nil {
		return manifest.Inputs{}, err
	}
	if m.allNamespaces {
		namespace = ""
	}
	cluster, err := m.Client()
	if err != nil {
		return manifest.Inputs{}, err
	}
	return presetmigration.ReadInputs(ctx, cluster, namespace)
}

// printUnreadable prints the faults of files that cannot be parsed. If there are any it returns ErrUnanswered, because VMs in these files were not compared.
// The faults of VMs and VMIs are printed elsewhere.
func (m *migrateRun) printUnreadable(in manifest.Inputs) (outcome error) {
	for _, object := range in.Named {
		if object.Fault != nil && object.GetKind() == "" {
			outcome = m.PrintUnanswered(object.Fault)
		}
	}
	return outcome
}

// outcomeOf returns the answer of a run; nil if no preset is rejected and no VM or VMI differs.
func outcomeOf(done presetmigration.Result) (answer error) {
	for _, p := range done.Presets {
		if len(p.Causes) > 0 {
			answer = cmdutil.ErrRejected
		}
	}
	for _, guest := range done.Guests {
		switch {
		case guest.State == presetmigration.Differs:
			return cmdutil.ErrGuestsDiffer
		case guest.State == presetmigration.Unknown:
			answer = cmdutil.ErrRejected
		}
	}
	return answer
}

// writeProfiles writes the profiles into the folder. If there are no profiles, it does not create the folder, and warns.
func (m *migrateRun) writeProfiles(done presetmigration.Result) error {
	var files []oci.File
	for _, p := range done.Presets {
		if p.Profile == nil {
			continue
		}
		raw, err := yaml.Marshal(p.Profile)
		if err != nil {
			return err
		}
		files = append(files, oci.File{Name: p.Preset + ".yaml", Content: raw})
	}
	if len(files) == 0 {
		m.Warn(fmt.Sprintf("no preset has a profile: '%s' is not written", m.folder))
		return nil
	}
	return catalogsource.WriteFolder(m.folder, files)
}
