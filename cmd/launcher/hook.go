package main

import (
	"github.com/kilnvm/kiln/internal/command"
	"github.com/kilnvm/kiln/internal/kubevirt/hook"
	"github.com/spf13/cobra"
)

// hookCommand returns 'launcher hook', the container of Kiln in pods of KubeVirt's virt-launcher.
func hookCommand(o *options) *cobra.Command {
	var socket string
	cmd := &cobra.Command{
		Use: "hook", Short: "Put recorded hardware back into the domain of a guest that KubeVirt runs",
		Long: "Serve KubeVirt's virt-launcher, which asks before it defines a domain: as hook sidecar (gate Sidecar) and as plugin (gate Plugins).\n" +
			"It runs in the pod of the guest, without credentials, and ends with virt-launcher.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			of := &hook.Hook{Log: command.Log(o.LogLevel)}
			return asFailure(of.Serve(cmd.Context(), socket))
		},
	}
	cmd.Flags().StringVar(&socket, "socket", "/var/run/kubevirt-hooks/kiln.sock", "Unix socket that virt-launcher connects to")
	o.AddLog(cmd.Flags())
	return cmd
}
