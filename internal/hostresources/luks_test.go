package hostresources

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kilnvm/kiln/test/poll"
)

// format makes an encrypted image. To choose the cost of the key QEMU measures its own CPU time, which a busy machine makes
// fail at times ("Unable to get accurate CPU usage"): then it is asked again.
func format(t *testing.T, image, key string) {
	t.Helper()
	var out []byte
	var err error
	for range 20 {
		create := exec.Command("qemu-img", "create", "-f", "luks", "--object", "secret,id=s,file="+key, "-o", "key-secret=s,iter-time=10", image, "8M")
		if out, err = create.CombinedOutput(); err == nil {
			return
		}
		if !strings.Contains(string(out), "CPU usage") {
			break
		}
	}
	t.Fatalf("qemu-img: %v: %s", err, out)
}

// luks makes an encrypted image and serves it; it returns the socket of the server.
func luks(t *testing.T, dir string) string {
	t.Helper()
	image, socket := filepath.Join(dir, "data.luks-image"), filepath.Join(dir, "nbd.sock")
	key := filepath.Join(dir, "key")
	if err := os.WriteFile(key, []byte(passphrase), 0o600); err != nil {
		t.Fatal(err)
	}
	format(t, image, key)
	server := exec.Command("qemu-nbd", "--persistent", "--format=raw", "--export-name=data", "--socket="+socket, image)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	listens := func() bool {
		_, err := os.Stat(socket)
		return err == nil
	}
	if !poll.Until(time.Minute, listens) {
		t.Fatal("qemu-nbd does not listen")
	}
	return socket
}
