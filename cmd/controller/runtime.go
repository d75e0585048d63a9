package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/kilnvm/kiln/certs"
	"github.com/kilnvm/kiln/internal/command"
	"github.com/kilnvm/kiln/internal/placeable/observer"
	"github.com/kilnvm/kiln/internal/review"
	"github.com/kilnvm/kiln/internal/vmipod"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/pod"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"
)

// Values of --runtime.
const (
	runtimePod  = string(config.RuntimePod)
	runtimeNode = string(config.RuntimeNode)
)

// guests are the flags about how guests run.
type guests struct {
	runtime string
	// image is the image of the launcher in pods, secrets are its pull secrets.
	image   string
	secrets []string
	network string
	// authorities is the file with the CAs that sign the certificates of launchers' clients.
	authorities string
	// taps and locked declare what nodes and networks support, see pod.Settings.
	taps, locked bool
}

// addFlags adds the flags.
func (g *guests) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&g.runtime, "runtime", runtimePod,
		"how guests run: '"+runtimePod+"' makes a pod of each VMI; '"+runtimeNode+"' leaves VMIs to 'launcher node' on machines of one tenant")
	flags.StringVar(&g.image, "launcher-image", "", "image of the launcher in the pods of guests; required with --runtime="+runtimePod)
	flags.StringSliceVar(&g.secrets, "launcher-pull-secrets", nil, "names of Secrets, in the namespaces of VMIs, with which that image is pulled")
	flags.StringVar(&g.network, "guest-network", string(pod.Passt), "how guests reach the network of their pods: '"+string(pod.Passt)+
		"' gives them the pod's address, on nodes with label kilnvm.io/passt; '"+string(pod.Slirp)+"' works on each node, and nothing reaches the guest")
	flags.StringVar(&g.authorities, "launcher-client-ca-file", "", "file of the authorities that sign the certificate of Kiln's API server of subresources, "+
		"which launchers serve consoles; it need not exist yet. Empty where that is not installed")
	flags.BoolVar(&g.taps, "guest-taps", false, "declare that the NetworkAttachmentDefinitions of Multus give pods tap devices of user 107; without it "+
		"such networks are refused")
	flags.BoolVar(&g.locked, "guest-locked-memory", false, "declare that containers of the nodes may lock memory without a limit; "+
		"without it host devices and SR-IOV are refused")
}

// podSettings returns the settings of pods by the flags, or an error that names a wrong flag.
func (g *guests) podSettings() (settings pod.Settings, err error) {
	settings = pod.Settings{Image: g.image, Network: pod.Network(g.network), Taps: g.taps, LockedMemory: g.locked}
	for _, name := range g.secrets {
		settings.PullSecrets = append(settings.PullSecrets, corev1.LocalObjectReference{Name: name})
	}
	if err := config.CheckRuntime(g.runtime); err != nil {
		return settings, err
	}
	switch {
	case g.network != string(pod.Passt) && g.network != string(pod.Slirp):
		return settings, fmt.Errorf("--guest-network is '%s': it must be '%s' or '%s'", g.network, pod.Passt, pod.Slirp)
	case g.runtime == runtimePod && g.image == "":
		return settings, errors.New("--launcher-image must name the image of the launcher that runs in the pods of guests. " +
			"Where guests run on machines by 'launcher node', set --runtime=" + runtimeNode)
	}
	return settings, nil
}

// vmiFinalizers returns the finalizers of new VMIs. Without a controller of pods, only a launcher that has claimed a VMI would remove the finalizer.
func (g *guests) vmiFinalizers() []string {
	if g.runtime == runtimeNode {
		return nil
	}
	return []string{v1.VirtualMachineInstanceFinalizer}
}

// newPlacement returns what judges whether the cluster could run the guests of VMs; nil if guests do not run in pods.
func (g *guests) newPlacement(engine *command.Engine, settings pod.Settings) *observer.Observer {
	if g.runtime == runtimeNode {
		return nil
	}
	return observer.New(observer.Options{
		Cache: engine.GetClient(), Live: engine.Live, Settings: settings,
		Reviewer: review.Reviewer{Resolver: engine.Resolver, Configuration: engine.Configuration.Now, Stored: true},
	})
}

// registerPods adds the controller of pods if guests run in pods. namespace is the namespace of the installation.
func (g *guests) registerPods(engine *command.Engine, namespace string, settings pod.Settings) error {
	if g.runtime == runtimeNode {
		return nil
	}
	var clients *vmipod.Clients
	if g.authorities != "" {
		clients = vmipod.NewClients(g.authorities, certs.APIServerHost(namespace))
	}
	return vmipod.New(vmipod.Options{
		Client: engine.GetClient(), Live: engine.Live, Configuration: engine.Configuration.Now, Configured: engine.Configuration.Synced,
		Settings: settings, Clients: clients, Events: engine.GetEventRecorder("kiln"), Now: time.Now,
	}).Register(engine)
}
