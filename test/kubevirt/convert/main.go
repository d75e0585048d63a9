//go:build kubevirt

// Command convert defines guests as virt-launcher does, by KubeVirt's own code: the converter, its types, the count of PCI devices, the client of hook
// sidecars, and all of plugins. It starts nothing. It reads a Request a line as JSON, and writes Steps: domains to be defined, each
// answered by a line with what libvirt has made of it, and at last the end. test/hooked has the libvirt.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"

	v1 "kubevirt.io/api/core/v1"
	pluginv1alpha1 "kubevirt.io/api/plugin/v1alpha1"
	"kubevirt.io/client-go/log"
)

// Request is a guest to be defined.
type Request struct {
	VMI *v1.VirtualMachineInstance `json:"vmi"`
	// Sidecar is the socket of a hook sidecar; empty for none.
	Sidecar string `json:"sidecar"`
	// Plugins are the cluster's plugins. Their sockets are below /var/run/kubevirt-plugin.
	Plugins []pluginv1alpha1.Plugin `json:"plugins"`
}

// Step is a domain to be defined, or the end.
type Step struct {
	Define string `json:"define,omitempty"`
	Error  string `json:"error,omitempty"`
	Done   bool   `json:"done,omitempty"`
}

// Defined is the answer to a domain: libvirt's inactive XML, or its error.
type Defined struct {
	XML   string `json:"xml"`
	Error string `json:"error"`
}

func main() {
	flag.Parse()
	log.InitializeLogging("convert")
	log.Log.SetIOWriter(io.Discard)
	lines, steps := json.NewDecoder(bufio.NewReader(os.Stdin)), json.NewEncoder(os.Stdout)
	for {
		var request Request
		switch err := lines.Decode(&request); err {
		case nil:
		case io.EOF:
			return
		default:
			failWith(err)
		}
		l := &launcher{Request: request, libvirt: func(xml string) (string, error) {
			var defined Defined
			if err := steps.Encode(Step{Define: xml}); err != nil {
				return "", err
			}
			if err := lines.Decode(&defined); err != nil {
				return "", err
			}
			if defined.Error != "" {
				return "", fmt.Errorf("libvirt: %s", defined.Error)
			}
			return defined.XML, nil
		}}
		end := Step{Done: true}
		if err := l.defineDomain(); err != nil {
			end.Error = err.Error()
		}
		if err := steps.Encode(end); err != nil {
			failWith(err)
		}
	}
}

func failWith(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
