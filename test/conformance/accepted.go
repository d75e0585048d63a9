package main

import (
	"encoding/json"
	"io"
	"path/filepath"

	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/identity"
	v1 "kubevirt.io/api/core/v1"
)

// acceptedGuest is an explicit VMI that Kiln lets in, as a line of JSON: what can be rendered, defined and started.
type acceptedGuest struct {
	ID  string                     `json:"id"`
	VMI *v1.VirtualMachineInstance `json:"vmi"`
	// cluster that it is admitted to.
	cluster config.Cluster
}

// writeAccepted writes the VMIs of all corpora that Kiln accepts.
func writeAccepted(dir string, out io.Writer) error {
	encoder := json.NewEncoder(out)
	return eachAccepted(dir, func(_ string, guest acceptedGuest) error { return encoder.Encode(guest) })
}

// eachAccepted calls with the name of the corpus and a VMI that has its identity.
func eachAccepted(dir string, call func(corpus string, guest acceptedGuest) error) error {
	clusters, err := readConfigs(filepath.Join(dir, "configs.json"), config.Newest)
	if err != nil {
		return err
	}
	for _, corpus := range corpora {
		cases, err := readCases(filepath.Join(dir, corpus.name+".jsonl.gz"))
		if err != nil {
			return err
		}
		for _, c := range cases {
			cluster := clusterOf(corpus.name, c, clusters)
			explicit := acceptedVMI(c, cluster)
			if explicit == nil {
				continue
			}
			// The identifiers derive from a fixed seed, so that the output is the same in every run.
			identity.Fill(explicit, seed)
			if err := call(corpus.name, acceptedGuest{c.ID, explicit, cluster}); err != nil {
				return err
			}
		}
	}
	return nil
}

// clusterOf a case. Guests of the corpus of domains were admitted by the cluster that allows everything.
func clusterOf(corpus string, c record, clusters map[string]config.Cluster) config.Cluster {
	name := c.Config
	if corpus == "convert" {
		name = "all"
	}
	if cluster, known := clusters[name]; known {
		return cluster
	}
	return clusters["default"]
}

// acceptedVMI returns the explicit VMI of a case, nil if Kiln refuses it or does not know yet what it is.
func acceptedVMI(c record, cluster config.Cluster) *v1.VirtualMachineInstance {
	if c.VM != nil {
		vm := &v1.VirtualMachine{}
		if json.Unmarshal(c.VM, vm) != nil {
			return nil
		}
		// The VMI of a VM is not known while its instancetype or preference is not.
		given, err := judgeVM(c, vm, cluster)
		if err != nil || given.unknown != (unknown{}) || given.refused || len(given.errs) > 0 {
			return nil
		}
		return given.explicit
	}
	vmi := &v1.VirtualMachineInstance{ObjectMeta: c.Metadata, Spec: c.Spec}
	if c.VMI != nil && json.Unmarshal(c.VMI, vmi) != nil {
		return nil
	}
	if vmi.Name == "" {
		vmi.Name, vmi.Namespace = "guest", "default" // a bare spec
	}
	in := admit.Input{Set: sizesOf(c), Presets: c.Presets, Cluster: cluster, User: c.User}
	explicit, verdict := admit.VMI(vmi, in)
	if !verdict.Allowed() || !admit.Judge(explicit, in).Allowed() {
		return nil
	}
	return explicit
}
