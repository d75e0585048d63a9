package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/internal/oci"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
	"github.com/kilnvm/kiln/internal/workbench/presetmigration"
	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// presetCommand is 'preset', the commands for VirtualMachineInstancePresets.
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

// migrate is a run of 'preset migrate'.
type migrate struct {
	cmdutil.Inputs
	presetmigration.Options
	// folder is that of --output-dir; empty to print the manifests.
	folder        string
	allNamespaces bool
}

// presetMigrateCommand is 'preset migrate'. It writes nothing to a cluster. The exit status is 3 if a VM or VMI would differ, 1 if a preset is rejected or a
// VM cannot be compared because what it refers to does not exist, and 2 for a fault. The highest of those that apply counts, but a fault counts first.
func presetMigrateCommand(s *cmdutil.Session) *cobra.Command {
	m := migrate{Inputs: cmdutil.NewInputs(s)}
	cmd := &cobra.Command{
		Use:   "migrate [-f FILE|DIR|- | -k DIR]",
		Short: "Write a GuestProfile for each preset, and prove that no VMI changes",
		Long: "Write a GuestProfile for each preset of the files, or of a namespace of the cluster, and prove that no VMI changes: each VM and\n" +
			"VMI among them is made explicit with the presets and with the profiles, and both VMIs and both libvirt domains are compared\n" +
			"byte by byte. Nothing is written to the cluster.\n\n" +
			"A preset fills an area such as spec.domain.cpu where a VMI has nothing of it; a profile fills each field that is not set. A\n" +
			"VM that has a part of an area may thus differ. It is named, with the fields and with what to write into it to keep its VMI,\n" +
			"and the exit status is 3. VMs that are pinned to presets keep them until 'kubectl kiln repin'.",
		Example: "  kubectl kiln preset migrate -f presets/ -f vms/ --catalog catalog/ > profiles.yaml\n" +
			"  kubectl kiln preset migrate -A --output-dir profiles/",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return m.run(cmd.Context()) },
	}
	m.AddInputs(cmd)
	flags := cmd.Flags()
	flags.BoolVarP(&m.allNamespaces, "all-namespaces", "A", false, "migrate the presets of all namespaces of the cluster")
	flags.StringVar(&m.folder, "output-dir", "", "folder to write the profiles to, as NAMESPACE/NAME.yaml; it must not exist or be empty")
	flags.BoolVar(&m.Firmware, "firmware", false, "keep spec.domain.firmware, which presets fill in VMIs without a VM alone, and profiles in VMs too")
	m.AddOutput(cmd, "text", "text", "json", "yaml")
	return cmd
}

// run reads, migrates and prints. As text the manifests go to standard output and what was compared to standard error, so that the output is a manifest.
func (m *migrate) run(ctx context.Context) error {
	in, err := m.readInputs(ctx)
	if err != nil {
		return err
	}
	done, warnings, err := presetmigration.Migrate(ctx, &m.Bench, in, m.Options)
	m.Warn(warnings...)
	if err != nil {
		return err
	}
	outcome := m.unreadable(in)
	if len(done.Presets) == 0 && outcome == nil {
		if m.Files.Named() {
			return m.Nothing("VirtualMachineInstancePreset", nil)
		}
		return errors.New("no VirtualMachineInstancePreset in the cluster's namespace: name another with -n, or all with -A")
	}
	// The report comes first: a folder that cannot be written must not cost the answer.
	if err := m.printMigrated(done); err != nil {
		return err
	}
	if m.folder != "" {
		if err := m.write(done); err != nil {
			return err
		}
	}
	for _, guest := range done.Guests {
		if guest.Fault != nil {
			outcome = cmdutil.Worse(outcome, m.Unanswered(guest.Fault))
		}
	}
	return cmdutil.Worse(outcome, outcomeOf(done))
}

// inputs are those of the files, or of the cluster.
func (m *migrate) readInputs(ctx context.Context) (manifest.Inputs, error) {
	if m.Files.Named() {
		if m.allNamespaces {
			return manifest.Inputs{}, errors.New("-A is for the cluster: give either files with -f and -k, or -A")
		}
		return m.Load(m.Files, nil)
	}
	namespace, _, err := m.Cluster.ToRawKubeConfigLoader().Namespace()
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

// unreadable prints the files that hold no object. It returns errUnanswered if there are any: a VM in such a file was not compared. VMs and VMIs print
// their own faults.
func (m *migrate) unreadable(in manifest.Inputs) (outcome error) {
	for _, object := range in.Named {
		if object.Fault != nil && object.GetKind() == "" {
			outcome = m.Unanswered(object.Fault)
		}
	}
	return outcome
}

// outcomeOf returns the answer of a run; nil if every VM and VMI is the same.
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

// write writes the profiles below the folder. Without any it writes nothing: the report says why each preset has none.
func (m *migrate) write(done presetmigration.Result) error {
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
	return cmdutil.WriteFolder(m.folder, files)
}
