package guestcmd

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/pod"
	"github.com/kilnvm/kiln/pkg/render"
	"github.com/spf13/cobra"
)

// renderRun is a run of 'render'.
type renderRun struct{ cmdutil.Inputs }

// renderOptions are the flags of one call.
type renderOptions struct {
	workbench.Rendering
	// folder is the value of --output-dir.
	folder string
	// image and network are the values of --launcher-image and --guest-network.
	image, network string
}

// RenderCommand returns 'render'. Without --host and --bindings it assumes a host, so that it works on any machine.
// The exit status is 1 if stage 1, 2 or 3 rejects a VM, also because the host cannot run it, and 2 if the user names no VM or VMI, or host or
// bindings cannot be read. The default is -o xml, because virsh and virt-xml-validate read XML.
func RenderCommand(s *cmdutil.Session) *cobra.Command {
	o := &renderRun{cmdutil.NewInputs(s)}
	cmd := &cobra.Command{
		Use:   "render (-f FILE|DIR|- | -k DIR | vm/NAME ...)",
		Short: "Print the libvirt domain that each VM would boot",
		Long: "Print the libvirt domain that each VM would boot, on the host that --host describes, or on an assumed host: QEMU in\n" +
			"/usr/bin, firmware at Debian's paths, files below /var/lib/kiln. A VM with a GuestHardware keeps the recorded\n" +
			"hardware. The domains of several VMs, and all that --documents prints, are below one root, <documents>. With\n" +
			"--stage pod it prints the pod in which Kiln would run the guest, with the claims and networks that it knows.",
		Example: "  kubectl kiln render -f vm.yaml | virt-xml-validate -\n" +
			"  kubectl kiln render vm/web -n shop --host host.yaml --documents --output-dir out/",
	}
	var r renderOptions
	flags := cmd.Flags()
	flags.StringVar(&r.Host, "host", "", "file with the HostCapabilities of the host")
	flags.StringVar(&r.Bindings, "bindings", "", "YAML file with the resources of the host for this start, such as paths and taps; missing ones are assumed")
	flags.StringVar(&r.Stage, "stage", workbench.StageBackend, "'frontend' for what the guest sees (stage 2), 'backend' for the complete domain, "+
		"'pod' for the pod that would run the guest")
	cmdutil.CompleteValues(cmd, "stage", renderStages...)
	flags.StringVar(&r.image, "launcher-image", "launcher", "with --stage pod: the image of the launcher, as the flag of Kiln's controller")
	flags.StringVar(&r.network, "guest-network", string(pod.Passt), "with --stage pod: '"+string(pod.Passt)+"' or '"+string(pod.Slirp)+
		"', as the flag of Kiln's controller")
	for _, name := range []string{"launcher-image", "guest-network"} { // only with another image or network than the manifests have; the help fits one screen
		if err := flags.MarkHidden(name); err != nil {
			panic(err)
		}
	}
	cmdutil.CompleteValues(cmd, "guest-network", string(pod.Passt), string(pod.Slirp))
	flags.BoolVar(&r.Side, "documents", false, "also print the secrets (without values), network filters and node devices of the domain")
	flags.StringVar(&r.folder, "output-dir", "", "write each document to DIR/NAMESPACE/NAME/KIND[-NAME].xml")
	o.AddProfiles(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return o.renderGuests(cmd, args, r) }
	o.AddInputs(cmd)
	o.AddOutput(cmd, "xml", "xml", "yaml", "json")
	o.Answers(cmd, "Rendering", rendering{})
	return cmd
}

// renderGuests prints the XML documents of all objects together: several domains are below one root <documents>, because XML has one root, and so is what
// --documents prints, however many documents there are. A single domain is printed without the root, so that it can be piped to 'virsh define' and
// virt-xml-validate.
func (o *renderRun) renderGuests(cmd *cobra.Command, args []string, r renderOptions) error {
	o.Bench.Quiet = true
	if err := o.checkFlags(cmd, r); err != nil {
		return err
	}
	if r.Stage == workbench.StagePod {
		return o.renderPods(cmd, args, r)
	}
	var all []render.Document
	err := o.EachGuest(cmd, args, func(guest workbench.Reviewed) error {
		rendered, err := o.Bench.Render(cmd.Context(), guest, r.Rendering)
		o.PrintNotes(rendered.Notes)
		if err != nil {
			return o.PrintRefusal(err)
		}
		if o.Output != "xml" {
			return o.printDocuments(guest, r.Stage, rendered.Documents)
		}
		if r.folder != "" {
			return writeDocuments(r.folder, guest, rendered.Documents)
		}
		all = append(all, rendered.Documents...)
		return nil
	})
	// Rendered documents are printed even if another object was refused. The exit status reports the refusal.
	if len(all) == 0 {
		return err
	}
	if len(all) == 1 && !r.Side {
		_, failed := fmt.Fprintln(o.Out, all[0].XML)
		return cmdutil.Worse(failed, err)
	}
	text, bundled := render.Bundle(all)
	if bundled != nil {
		return bundled
	}
	if _, failed := fmt.Fprintln(o.Out, text); failed != nil {
		return failed
	}
	return err
}

// renderStages are the values of --stage.
var renderStages = []string{workbench.StageFrontend, workbench.StageBackend, workbench.StagePod}

// checkFlags returns an error if the flags contradict each other.
func (o *renderRun) checkFlags(cmd *cobra.Command, r renderOptions) error {
	switch {
	case !slices.Contains(renderStages, r.Stage):
		return fmt.Errorf("--stage '%s' is not supported, use %s", r.Stage, strings.Join(renderStages, ", "))
	case r.Stage != workbench.StageBackend && r.Side:
		return fmt.Errorf("--documents prints documents of the complete domain: leave out --stage %s", r.Stage)
	case r.folder != "" && cmd.Flags().Changed("output"):
		return errors.New("--output-dir writes only XML: leave out -o")
	case r.Stage != workbench.StagePod:
		return nil
	case o.Bench.Runtime == workbench.RuntimeKubeVirt || o.Bench.Runtime == string(config.RuntimeNode):
		return fmt.Errorf("--stage %s is the pod of runtime '%s': leave out --runtime %s", workbench.StagePod, config.RuntimePod, o.Bench.Runtime)
	case r.folder != "" || o.Output == "xml" && cmd.Flags().Changed("output"):
		return fmt.Errorf("a pod is no XML: leave out --output-dir and -o xml, or --stage %s", workbench.StagePod)
	case r.Host != "" || r.Bindings != "":
		return fmt.Errorf("a pod does not depend on the host that runs it: leave out --host and --bindings, or --stage %s", workbench.StagePod)
	case r.network != string(pod.Passt) && r.network != string(pod.Slirp):
		return fmt.Errorf("--guest-network is '%s': it must be '%s' or '%s'", r.network, pod.Passt, pod.Slirp)
	}
	return nil
}

// renderPods prints the pod of each guest as a manifest of Kubernetes.
func (o *renderRun) renderPods(cmd *cobra.Command, args []string, r renderOptions) error {
	if !cmd.Flags().Changed("output") {
		o.Output = "yaml"
	}
	settings := pod.Settings{Image: r.image, Network: pod.Network(r.network), Taps: true, LockedMemory: true}
	return o.EachGuest(cmd, args, func(guest workbench.Reviewed) error {
		made, notes, err := o.Bench.RenderPod(cmd.Context(), guest, settings)
		o.PrintNotes(notes)
		if err != nil {
			return o.PrintRefusal(err)
		}
		return o.PrintManifest(made, "")
	})
}
