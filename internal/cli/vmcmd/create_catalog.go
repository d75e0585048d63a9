package vmcmd

import (
	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/internal/create"
	"github.com/spf13/cobra"
)

// createInstancetypeCommand returns 'create instancetype', with the flags of virtctl. --namespace implies --namespaced, because otherwise it would have no
// effect.
func createInstancetypeCommand(s *cmdutil.Session) *cobra.Command {
	o := newCreateRun(s)
	var f create.Instancetype
	cmd := &cobra.Command{
		Use:   "instancetype --cpu N --memory QUANTITY",
		Short: "Create the manifest of an instancetype",
		Long:  "Create the manifest of a VirtualMachineClusterInstancetype, or with --namespaced or --namespace of a VirtualMachineInstancetype.",
		Example: "  kubectl kiln create instancetype --name small --cpu 1 --memory 2Gi\n" +
			"  kubectl kiln create instancetype --namespaced --name gpu --cpu 4 --memory 16Gi --gpu name:gpu1,devicename:nvidia.com/A100",
		Args: cobra.NoArgs,
	}
	m := o.addManifestFlags(cmd)
	flags := cmd.Flags()
	flags.Uint32Var(&f.CPU, "cpu", 0, "number of vCPUs")
	flags.StringVar(&f.Memory, "memory", "", "memory, such as 2Gi")
	flags.StringArrayVar(&f.GPU, "gpu", nil, "GPU as name:NAME,devicename:RESOURCE; may be given several times")
	flags.StringArrayVar(&f.HostDevice, "hostdevice", nil, "host device as name:NAME,devicename:RESOURCE; may be given several times")
	flags.StringVar(&f.IOThreadsPolicy, "iothreadspolicy", "", "ioThreadsPolicy: auto or shared")
	flags.BoolVar(&f.Namespaced, "namespaced", false, "create a VirtualMachineInstancetype")
	_ = cmd.MarkFlagRequired("cpu") // fails for a flag that is not there
	_ = cmd.MarkFlagRequired("memory")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		f.Namespace = o.namespaceFlag()
		f.Namespaced = f.Namespaced || f.Namespace != ""
		f.Name = m.nameOrRandom(namePrefix("instancetype", f.Namespaced))
		made, err := f.Build()
		if err != nil {
			return err
		}
		return o.printOrApply(cmd.Context(), m, made)
	}
	return cmd
}

// createPreferenceCommand returns 'create preference', with the flags of virtctl. There are no flags for the other fields of a preference.
func createPreferenceCommand(s *cmdutil.Session) *cobra.Command {
	o := newCreateRun(s)
	var f create.Preference
	cmd := &cobra.Command{
		Use:   "preference",
		Short: "Create the manifest of a preference",
		Long:  "Create the manifest of a VirtualMachineClusterPreference, or with --namespaced or --namespace of a VirtualMachinePreference.",
		Example: "  kubectl kiln create preference --name cores --cpu-topology cores\n" +
			"  kubectl kiln create preference --namespaced --volume-storage-class fast --machine-type q35",
		Args: cobra.NoArgs,
	}
	m := o.addManifestFlags(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.CPUTopology, "cpu-topology", "", "preferred topology: sockets, cores, threads, spread or any")
	cmdutil.CompleteValues(cmd, "cpu-topology", "sockets", "cores", "threads", "spread", "any")
	flags.StringVar(&f.MachineType, "machine-type", "", "preferred machine type")
	flags.StringVar(&f.VolumeStorageClass, "volume-storage-class", "", "preferred storage class")
	flags.BoolVar(&f.Namespaced, "namespaced", false, "create a VirtualMachinePreference")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		f.Namespace = o.namespaceFlag()
		f.Namespaced = f.Namespaced || f.Namespace != ""
		f.Name = m.nameOrRandom(namePrefix("preference", f.Namespaced))
		made, err := f.Build()
		if err != nil {
			return err
		}
		return o.printOrApply(cmd.Context(), m, made)
	}
	return cmd
}

// namePrefix returns the prefix of a random name, as in virtctl: clusterinstancetype, instancetype, clusterpreference or preference.
func namePrefix(what string, namespaced bool) string {
	if namespaced {
		return what
	}
	return "cluster" + what
}
