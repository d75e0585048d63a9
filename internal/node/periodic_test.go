package node

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/kilnvm/kiln/internal/hypervisor"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/test/libvirt"
	v1 "kubevirt.io/api/core/v1"
)

// TestLibvirtStartedLater: a machine's assumed capabilities are replaced by libvirt's as soon as libvirt answers, and again after libvirt is restarted.
func TestLibvirtStartedLater(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "kiln-later-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	vmi := claimedVMI(t, "later")
	vmi.Status.NodeName, vmi.Status.Phase = "", v1.Pending
	api := newClusterWithHardware(t, vmi)
	first, second := libvirt.Start(t), libvirt.Start(t)
	n := newNode(t, connectLibvirt(t, first), api, api)
	l := hypervisor.New(socket)
	n.Hypervisor, n.Labels, n.KVM = l, map[string]string{"rack": "1"}, hypervisor.KVMNever
	n.learnedFacts.Store(nil)
	n.Assumed = backend.Assumed("amd64")
	t.Cleanup(l.Close)
	if after := reconcileRepeatedly(t, n, vmi); after.Status.NodeName != "" {
		t.Errorf("claimed by '%s' without a libvirt", after.Status.NodeName)
	}
	if _, err := os.Stat(filepath.Join(n.Machine.Folder(vmi), "domain.xml")); err != nil {
		t.Errorf("the domain XML was not written: %v", err)
	}
	if err := n.Learn(t.Context()); err == nil {
		t.Error("a libvirt was found that is not there")
	}
	if err := os.Symlink(first.Socket, socket); err != nil {
		t.Fatal(err)
	}
	if err := n.Learn(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := reconcileRepeatedly(t, n, vmi); after.Status.NodeName != "here" {
		t.Errorf("claimed by '%s', want 'here'", after.Status.NodeName)
	}
	if got := n.hostFacts(); got.LibvirtVersion == "" || got.Labels["rack"] != "1" {
		t.Errorf("the machine is %+v", got)
	}
	if err := errors.Join(first.Close(), os.Remove(socket), os.Symlink(second.Socket, socket)); err != nil {
		t.Fatal(err)
	}
	if err := n.Learn(t.Context()); err != nil {
		t.Errorf("the new libvirt is not asked: %v", err)
	}
}
