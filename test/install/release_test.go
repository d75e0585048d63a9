package install

import (
	"bytes"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/internal/oci"
	"github.com/kilnvm/kiln/test/node"
	"github.com/kilnvm/kiln/test/registry"
)

// publishedRelease is a release of this tree for this machine's platform, in a registry.
type publishedRelease struct {
	*testing.T
	folder string
	// host is the address of the registry, and public the file of the key that verifies.
	host, public string
	// image and chart are references with digests.
	image, chart string
}

// TestRelease makes a release of this tree, pushes it, verifies it as docs/how-to/release.md says, and installs it by digests from the registry.
func TestRelease(t *testing.T) {
	t.Parallel()
	// The node pulls from 127.0.0.1, as Helm does here: containerd, too, speaks plain HTTP with this address.
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &publishedRelease{T: t, folder: t.TempDir(), host: listener.Addr().String()}
	listeners, n := []net.Listener{listener}, (*node.Node)(nil)
	if node.Incapable() == nil {
		n = node.Start(t, node.Options{})
		inside, err := n.Listen(t.Context(), "tcp", r.host)
		if err != nil {
			t.Fatal(err)
		}
		listeners = append(listeners, inside)
	}
	registry.Serve(t, listeners...)
	r.make()
	t.Run("signatures and bills of materials", func(t *testing.T) { r.verified(t) })
	t.Run("sums", func(t *testing.T) { r.summed(t) })
	t.Run("krew", func(t *testing.T) { r.pluginInstalled(t) })
	t.Run("helm", func(t *testing.T) {
		node.Require(t)
		r.installed(t, n)
	})
}

// make makes and publishes the release, twice: what is pushed already stays.
func (r *publishedRelease) make() {
	r.Helper()
	private, public := registry.Keys(r, password)
	key := filepath.Join(r.TempDir(), "cosign.key")
	r.public = filepath.Join(r.folder, "cosign.pub")
	if err := os.WriteFile(key, private, 0o600); err != nil {
		r.Fatal(err)
	}
	command(r, "../..", "go", "run", "./manifests/release", "-o", r.folder, "-version", "v0.1.0-test", "-platforms", "linux/"+runtime.GOARCH, "-registry", r.host)
	publish := []string{"run", "./manifests/publish", "-from", r.folder, "-to", r.host, "-key", key, "-plain-http"}
	out := command(r, "../..", "go", publish...)
	lines := regexp.MustCompile(`^oci://(\S+/kiln:v0.1.0-test@sha256:[0-9a-f]{64})\noci://(\S+/charts/kiln:0.1.0-test@sha256:[0-9a-f]{64})\n$`)
	found := lines.FindStringSubmatch(out)
	if found == nil {
		r.Fatalf("it printed\n%s", out)
	}
	r.image, r.chart = found[1], found[2]
	if again := command(r, "../..", "go", publish...); again != out {
		r.Errorf("published again:\n%s\nwant\n%s", again, out)
	}
	if written, err := os.ReadFile(r.public); err != nil || !bytes.Equal(written, public) {
		r.Errorf("cosign.pub is '%s' %v, want the public key", written, err)
	}
}

// password is the password of the key that signs.
const password = "secret"

// command runs a program in a folder, with the password of the key in its environment, and returns its standard output.
func command(t testing.TB, folder, program string, args ...string) string {
	t.Helper()
	var failed bytes.Buffer
	c := exec.CommandContext(t.Context(), program, args...)
	c.Dir, c.Stderr, c.Env = folder, &failed, append(os.Environ(), "COSIGN_PASSWORD="+password)
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", program, strings.Join(args, " "), err, out, failed.String())
	}
	return string(out)
}

// verified: image and chart have a signature of the key and of no other, and the bill of materials of the release.
func (r *publishedRelease) verified(t *testing.T) {
	client, err := oci.New(oci.Options{PlainHTTP: true, UserAgent: "kiln-test"})
	if err != nil {
		t.Fatal(err)
	}
	_, stranger := registry.Keys(t, "")
	own, err := os.ReadFile(r.public)
	if err != nil {
		t.Fatal(err)
	}
	materials, err := os.ReadFile(filepath.Join(r.folder, "kiln.cdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, reference := range []string{r.image, r.chart} {
		for _, key := range []struct {
			pem   []byte
			signs bool
		}{{own, true}, {stranger, false}} {
			verifier, err := oci.PublicKey(key.pem)
			if err != nil {
				t.Fatal(err)
			}
			digest, err := client.Verify(t.Context(), reference, verifier)
			var unsigned *oci.UnsignedError
			if key.signs && (err != nil || !strings.HasSuffix(reference, digest.String())) || !key.signs && !errors.As(err, &unsigned) {
				t.Errorf("%s, key of the release %t: '%s' %v", reference, key.signs, digest, err)
			}
		}
		attached, err := client.Attached(t.Context(), reference, "application/vnd.cyclonedx+json")
		if err != nil || !bytes.Equal(attached, materials) {
			t.Errorf("%s: the bill of materials differs from the release's: %v", reference, err)
		}
	}
	var bill struct{ Components []struct{ Name string } }
	if err := json.Unmarshal(materials, &bill); err != nil || len(bill.Components) < 50 {
		t.Errorf("the bill of materials has %d components, want at least 50: %v", len(bill.Components), err)
	}
}

// summed: the commands of docs/how-to/release.md verify the files, and find a change.
func (r *publishedRelease) summed(t *testing.T) {
	verify := []string{"-e", "-o", "pipefail", "-c", "base64 -d SHA256SUMS.sig > bin.sig\n" +
		"openssl dgst -sha256 -verify cosign.pub -signature bin.sig SHA256SUMS\nsha256sum --check --ignore-missing --quiet SHA256SUMS"}
	if out := command(t, r.folder, "bash", verify...); !strings.Contains(out, "Verified OK") {
		t.Errorf("openssl says '%s'", out)
	}
	copied := t.TempDir()
	for _, name := range []string{"SHA256SUMS", "SHA256SUMS.sig", "cosign.pub"} {
		raw, err := os.ReadFile(filepath.Join(r.folder, name))
		if err != nil {
			t.Fatal(err)
		}
		if name == "SHA256SUMS" {
			raw[0] ^= 1
		}
		if err := os.WriteFile(filepath.Join(copied, name), raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	changed := exec.Command("bash", verify...)
	changed.Dir = copied
	if out, err := changed.CombinedOutput(); err == nil || !strings.Contains(string(out), "Verification failure") {
		t.Errorf("a changed list: %v\n%s", err, out)
	}
}

// pluginInstalled: krew installs the archive by the manifest of the release, and kubectl's completion finds its program in the archive.
func (r *publishedRelease) pluginInstalled(t *testing.T) {
	out, err := exec.Command("go", "-C", "../krew", "tool", "-n", "krew").Output()
	if err != nil {
		t.Fatal("building krew: ", err)
	}
	root := t.TempDir()
	krew := exec.Command(strings.TrimSpace(string(out)), "install", "--manifest", filepath.Join(r.folder, "krew-kiln.yaml"),
		"--archive", filepath.Join(r.folder, "kubectl-kiln-linux-"+runtime.GOARCH+".tar.gz"))
	krew.Env = append(os.Environ(), "KREW_ROOT="+root, "KREW_NO_UPGRADE_CHECK=1", "KREW_OS=linux")
	if out, err := krew.CombinedOutput(); err != nil {
		t.Fatalf("krew: %v\n%s", err, out)
	}
	if out := command(t, root, filepath.Join(root, "bin/kubectl-kiln"), "version"); !strings.Contains(out, "v0.1.0-test") {
		t.Errorf("the installed plugin is '%s'", out)
	}
	complete := filepath.Join(root, "store/kiln/v0.1.0-test/kubectl_complete-kiln")
	if out := command(t, root, complete, "expl"); !strings.HasPrefix(out, "explain") {
		t.Errorf("the completion of 'expl' is '%s'", out)
	}
}

// installed: Helm installs the chart by its digest, the node pulls the image by its digest, and the webhook admits a VM.
func (r *publishedRelease) installed(t *testing.T, n *node.Node) {
	_, digest, _ := strings.Cut(r.image, "@")
	chart := regexp.MustCompile(`:[^:/@]+@`).ReplaceAllString(r.chart, "@") // Helm takes a digest or a tag
	u := &user{T: t, bin: t.TempDir(), node: n}
	u.commands()
	u.run("helm install kiln oci://" + chart + " --plain-http --set image.tag=" + digest + ",devices.enabled=false --wait --timeout 5m")
	u.run("kubectl wait -n kiln-system --for=condition=Available --timeout=120s deployment --all")
	u.run("kubectl apply --server-side -k manifests/catalog && kubectl create -f examples/vm.yaml")
	if pins := u.run(`kubectl get vm demo -o jsonpath='{.metadata.annotations.kilnvm\.io/pins}'`); !strings.Contains(pins, `"instancetype":"small-`) {
		t.Errorf("the VM has the pins '%s'", pins)
	}
	name, _, _ := strings.Cut(r.image, ":v")
	if images := u.run("kubectl get pods -n kiln-system -o jsonpath='{.items[*].spec.containers[*].image}'"); strings.Count(images, name+"@"+digest) != 4 {
		t.Errorf("the pods have the images '%s', want '%s@%s' four times", images, name, digest)
	}
}
