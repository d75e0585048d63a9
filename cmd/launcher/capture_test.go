package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/hostresources"
	"github.com/kilnvm/kiln/internal/hypervisor"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/record"
	"github.com/kilnvm/kiln/pkg/render"
	"github.com/kilnvm/kiln/test/explicit"
	"github.com/kilnvm/kiln/test/libvirt"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// TestCaptureCommand: the record that the launcher made before the start, and the one that is read back from what runs, are one.
func TestCaptureCommand(t *testing.T) {
	t.Parallel()
	d := libvirt.Start(t)
	vmi := explicit.Plain(t, "captured")
	started := startPlain(t, d, vmi)
	capture := func(memory string) (record.Record, error) {
		vmi := explicit.Plain(t, "captured")
		vmi.UID = "another" // the guest's identity is what runs, not what would be derived
		vmi.Kind, vmi.APIVersion = "VirtualMachineInstance", "kubevirt.io/v1"
		raw, err := json.Marshal(vmi)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "vmi.json")
		if err := os.WriteFile(file, []byte(strings.ReplaceAll(string(raw), `"64Mi"`, memory)), 0o600); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		command := newCommand()
		command.SetArgs([]string{"capture", "-f", file, "--libvirt", d.Socket, "--kvm", "never", "--node", "here"})
		command.SetOut(&out)
		command.SetContext(t.Context())
		if err := command.Execute(); err != nil {
			return record.Record{}, err
		}
		var hardware v1alpha1.GuestHardware
		if err := yaml.UnmarshalStrict(out.Bytes(), &hardware); err != nil || hardware.Name != "captured" || hardware.Kind != "GuestHardware" {
			t.Fatalf("%v, for:\n%s", err, &out)
		}
		return *hardware.Spec.Hardware, nil
	}
	record, err := capture(`"64Mi"`)
	if err != nil {
		t.Fatal(err)
	}
	record.Digest = started.Digest // the generation ID differs, because another VM captures the domain
	if diff := cmp.Diff(started, record, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("record (-started with +captured):\n%s", diff)
	}
	if _, err := capture(`"128Mi"`); err == nil || !strings.Contains(err.Error(), "spec.domain.memory") {
		t.Errorf("a spec that does not match what runs: %v", err)
	}
}

// startPlain starts a guest as a node does, and returns its record.
func startPlain(t *testing.T, d *libvirt.Daemon, vmi *v1.VirtualMachineInstance) record.Record {
	t.Helper()
	l := hypervisor.New(d.Socket)
	t.Cleanup(l.Close)
	facts, err := l.Capabilities(t.Context(), "here", hypervisor.KVMNever)
	if err != nil {
		t.Fatal(err)
	}
	state, err := os.MkdirTemp("", "kiln-capture-") // sockets want a short path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(state) })
	bound, errs := (&hostresources.BareMachine{State: state}).Bind(t.Context(), vmi, facts.QEMU)
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	rendered, errs := render.Domain(render.Machine{VMI: vmi, Defaults: config.Default().Frontend, Host: facts, Bindings: bound.Bindings})
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	owner := hypervisor.Owner{Namespace: vmi.Namespace, Name: vmi.Name, UID: vmi.UID, Node: "here"}
	if err := l.Start(t.Context(), hypervisor.Guest{Owner: owner, Documents: rendered.Documents}); err != nil {
		t.Fatal(err)
	}
	if err := record.Check(&rendered.Record); err != nil {
		t.Fatalf("the record cannot be read: %v", err)
	}
	return rendered.Record
}
