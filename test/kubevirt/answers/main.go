//go:build kubevirt

// Command answers says what KubeVirt makes of VMIs, by KubeVirt's own code: it reads a VMI a line as JSON, and writes an Answer a line. It starts nothing, and
// asks no server. Building it takes minutes, since it has most of KubeVirt: the tag keeps it out of what every test builds.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"

	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/client-go/log"
)

// Answer is what KubeVirt makes of a VMI. A VMI that is refused has neither pod nor domain.
type Answer struct {
	// Refused are the webhooks' reasons.
	Refused []Reason `json:"refused,omitempty"`
	// Spec is the spec after the mutating webhook.
	Spec *v1.VirtualMachineInstanceSpec `json:"spec,omitempty"`
	// Pod is virt-launcher's pod, Domain libvirt's XML.
	Pod    json.RawMessage `json:"pod,omitempty"`
	Domain string          `json:"domain,omitempty"`
	// Data is what virt-launcher gives the guest beside its domain: cloud-init data, and answers of its DHCP server.
	Data json.RawMessage `json:"data,omitempty"`
	// Error is the reason if a VMI that is not refused has no pod or no domain.
	Error string `json:"error,omitempty"`
}

// Reason is why a VMI is refused. Field is a path of the VMI, if KubeVirt names one.
type Reason struct {
	Field   string `json:"field"`
	Message string `json:"message"`
}

func main() {
	flag.Parse()
	// KubeVirt's log is written to standard error, which nobody reads here.
	log.InitializeLogging("answers")
	log.Log.SetIOWriter(io.Discard)
	if err := serveLines(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serveLines(in io.Reader, out io.Writer) error {
	dir, err := os.MkdirTemp("", "kiln-answers-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	host, err := newHost(dir)
	if err != nil {
		return err
	}
	lines, answers := json.NewDecoder(bufio.NewReader(in)), json.NewEncoder(out)
	for {
		var vmi v1.VirtualMachineInstance
		switch err := lines.Decode(&vmi); err {
		case nil:
		case io.EOF:
			return nil
		default:
			return err
		}
		if err := answers.Encode(answerVMI(&vmi, host)); err != nil {
			return err
		}
	}
}

// answerVMI takes a VMI through the webhooks, virt-controller, virt-handler and virt-launcher.
func answerVMI(vmi *v1.VirtualMachineInstance, host *host) (a Answer) {
	defer func() {
		if reason := recover(); reason != nil {
			a.Error = fmt.Sprint("panic: ", reason)
		}
	}()
	cluster := newCluster(vmi)
	if a = cluster.admitVMI(vmi); len(a.Refused) > 0 || a.Error != "" {
		return a
	}
	setScheduled(vmi)
	pod, err := cluster.launcherPod(vmi.DeepCopy())
	if err != nil {
		a.Error = "pod: " + err.Error()
		return a
	}
	a.Pod = pod
	if a.Domain, a.Data, err = host.convertDomain(vmi, cluster); err != nil {
		a.Error = "domain: " + err.Error()
	}
	return a
}
