package e2e

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kilnvm/kiln/test/cluster"
	"github.com/kilnvm/kiln/test/guest"
	"github.com/kilnvm/kiln/test/libvirt"
	"github.com/kilnvm/kiln/test/page"
)

// TestMoveAVM runs the commands of docs/tutorials/move-a-vm.md with two libvirts: the old host, and a bare machine with a launcher. 'make nightly' gives the
// machine a disk with an operating system, which reports what it finds.
func TestMoveAVM(t *testing.T) {
	h := newShop(t)
	old := libvirt.Start(t)
	claims := filepath.Join(h.dir, "claims")
	if err := os.Mkdir(claims, 0o700); err != nil {
		t.Fatal(err)
	}
	office := "office" + h.name[strings.LastIndex(h.name, "-"):] // the namespace of an earlier run may still be going away
	m := h.startMachineWith(func(n *cluster.Node) { n.Claims = claims })
	t.Cleanup(func() { // before the machine ends
		_ = h.kubectlAfter("delete", "vm", "till", "-n", office, "--ignore-not-found", "--timeout=60s")
		_ = h.kubectlAfter("delete", "namespace", office, "--ignore-not-found", "--wait=false")
		endServer(t, filepath.Join(h.dir, "till.pid"))
	})
	h.env = append(h.env, "LIBVIRT_DEFAULT_URI="+old.URI)
	here := strings.NewReplacer("office", office, "/etc/kiln/claims", claims, "qemu+ssh://root@new.example.org/system", "'"+m.URI+"'")
	boots := os.Getenv("NIGHTLY") != ""
	blocks := page.Blocks(t, "../../docs/tutorials/move-a-vm.md", "")
	for i := range blocks {
		blocks[i].Text = here.Replace(blocks[i].Text)
		if boots {
			blocks[i].Text = strings.Replace(blocks[i].Text, "qemu-img create -q -f raw till.img 400M", "cp '"+bootDisk(t)+"' till.img", 1)
		}
	}
	scripts, shown := h.walk(blocks, func(script string) {
		if strings.Contains(script, "jsonpath={.status.phase}=Running") {
			output, status := h.run("LIBVIRT_DEFAULT_URI='" + m.URI + "' kubectl kiln import libvirt:" + office + "_till -o table")
			if status != 0 || !strings.Contains(output, "runs: shut it down") || !strings.Contains(output, "elements of domain '"+office+"_till'") {
				t.Errorf("the import of a machine that runs: status %d\n%s", status, output)
			}
		}
		if boots && strings.Contains(script, "jsonpath={.status.phase}=Running") {
			checkMovedGuest(h.space, m, office)
		}
	})
	if scripts != 9 || shown != 7 {
		t.Errorf("%d scripts and %d outputs: the page has another form than this test reads", scripts, shown)
	}
	report, err := os.ReadFile(filepath.Join(h.dir, "till.html"))
	if err != nil || !strings.Contains(string(report), "<title>Import of till</title>") {
		t.Errorf("the page for the owner: %v\n%.300s", err, report)
	}
}

// endServer ends the server of the disk, if the page has not ended it.
func endServer(t *testing.T, file string) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return
	}
	id, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil {
		t.Error(err)
		return
	}
	_ = syscall.Kill(id, syscall.SIGTERM)
}

// bootDisk writes a disk from which the guest of these tests boots.
func bootDisk(t *testing.T) string {
	t.Helper()
	disk, err := guest.BuildDisk(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return disk
}

// checkMovedGuest checks that the guest of the page has booted from the moved disk, and has its network card.
func checkMovedGuest(s space, m machine, namespace string) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), guest.BootTimeout)
	defer cancel()
	vmi, err := s.on.Get(ctx, cluster.In{Namespace: namespace, Kind: "vmi"}, "till")
	if err != nil {
		s.Fatal(err)
	}
	began := time.Now()
	report, err := guest.WaitReport(ctx, filepath.Join(m.state, string(vmi.GetUID()), "serial.log"), 1)
	if err != nil {
		s.Fatal(err)
	}
	s.Logf("the guest has booted from the moved disk after %s", time.Since(began).Round(time.Second))
	if len(report.NICs) != 1 || !slices.ContainsFunc(report.Disks, func(d guest.Disk) bool { return d.Name == "vda" }) {
		s.Errorf("the guest has the network cards %+v and the disks %+v", report.NICs, report.Disks)
	}
}
