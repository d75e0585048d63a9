package launch

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kdomanski/iso9660"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
)

// testHost serves a fresh folder that holds a raw image, a link that stays inside and links that lead out.
func testHost(t *testing.T) (*Host, string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	outside := filepath.Join(filepath.Dir(dir), "outside.img")
	tree := filepath.Join(dir, "containers", "registry.example", "demo:1")
	for _, make := range []func() error{
		func() error { return os.WriteFile(outside, []byte("secret"), 0o600) },
		func() error { return os.MkdirAll(filepath.Join(tree, "disk"), 0o755) },
		func() error { return os.MkdirAll(filepath.Join(tree, "boot"), 0o755) },
		func() error { return os.Mkdir(filepath.Join(dir, "folder"), 0o755) },
		func() error { return os.MkdirAll(filepath.Join(dir, "claims", "shop"), 0o755) },
		func() error {
			return os.WriteFile(filepath.Join(dir, "claims", "shop", "data.key"), []byte("key"), 0o600)
		},
		func() error {
			return os.WriteFile(filepath.Join(dir, "claims", "shop", "data.yaml"), []byte("network: {protocol: nbd, hosts: [{name: disks.example}]}"), 0o600)
		},
		func() error { return os.WriteFile(filepath.Join(dir, "disk.img"), make1MiB(), 0o600) },
		func() error { return os.WriteFile(filepath.Join(tree, "disk", "root.img"), make1MiB(), 0o600) },
		func() error { return os.WriteFile(filepath.Join(tree, "boot", "vmlinuz"), []byte("kernel"), 0o600) },
		func() error { return os.Symlink("disk.img", filepath.Join(dir, "inside.img")) },
		func() error { return os.Symlink(outside, filepath.Join(dir, "link.img")) },
		func() error { return os.Symlink("/etc", filepath.Join(dir, "etc")) },
		func() error { return os.Symlink("../outside.img", filepath.Join(dir, "relative.img")) },
		func() error { return os.Symlink(outside, filepath.Join(tree, "boot", "evil")) },
	} {
		if err := make(); err != nil {
			t.Fatal(err)
		}
	}
	root, err := OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	return &Host{Volumes: root, State: t.TempDir()}, dir
}

func make1MiB() []byte { return make([]byte, 1<<20) }

func TestHostDiskStaysBelowItsRoot(t *testing.T) {
	host, dir := testHost(t)
	for _, test := range []struct{ name, path, want, why string }{
		{name: "file", path: dir + "/disk.img", why: "what lies below the root is served"},
		{name: "link inside", path: dir + "/inside.img", why: "a link that stays below the root is a file like others"},
		{name: "passwd", path: "/etc/passwd", want: "not below", why: "an absolute path elsewhere"},
		{name: "dots", path: dir + "/../outside.img", want: "not below", why: "'..' is resolved before it is looked at"},
		{name: "deep dots", path: dir + "/a/b/../../../outside.img", want: "not below", why: "however deep it starts"},
		{name: "relative", path: "disk.img", want: "not below", why: "relative to what?"},
		{name: "root itself", path: dir, want: "not below", why: "a folder is no disk"},
		{name: "sibling", path: dir + "-other/disk.img", want: "not below", why: "a prefix of the name is not the folder"},
		{name: "absolute link", path: dir + "/link.img", want: "cannot be served", why: "a link that leads out"},
		{name: "relative link", path: dir + "/relative.img", want: "cannot be served", why: "a relative link that leads out"},
		{name: "linked folder", path: dir + "/etc/passwd", want: "cannot be served", why: "a folder on the way may be a link"},
		{name: "folder", path: dir + "/folder", want: "not a regular file", why: "a folder is no disk"},
		{name: "images", path: dir + "/containers/registry.example/demo:1/disk/root.img", want: "administrator", why: "others boot from it"},
		{name: "keys", path: dir + "/x/../claims/shop/data.key", want: "administrator", why: "the keys of others"},
		{name: "folder of images", path: dir + "/containers", want: "administrator", why: "whatever it is"},
		{name: "absent", path: dir + "/none.img", want: "does not exist", why: "type Disk creates nothing"},
	} {
		t.Run(test.name, func(t *testing.T) {
			volume, err := host.hostDisk(&v1.HostDisk{Path: test.path, Type: v1.HostDiskExists})
			if test.want == "" {
				if err != nil || volume.Path != filepath.Join(dir, "disk.img") || volume.Format != "raw" {
					t.Errorf("%s: got %+v, %v", test.why, volume, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: got %+v and error %v, want one with '%s'", test.why, volume, err, test.want)
			}
			if err != nil && strings.Contains(err.Error(), "outside") && !strings.Contains(test.path, "outside") {
				t.Errorf("the error tells where the link leads: %v", err)
			}
		})
	}
}

func TestHostDiskIsCreatedOnlyBelowItsRoot(t *testing.T) {
	host, dir := testHost(t)
	size := resource.MustParse("3Mi")
	volume, err := host.hostDisk(&v1.HostDisk{Path: dir + "/new.img", Type: v1.HostDiskExistsOrCreate, Capacity: size})
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(volume.Path); err != nil || info.Size() != size.Value() {
		t.Errorf("created %v, %v, want %d bytes", info, err, size.Value())
	}
	if _, err := host.hostDisk(&v1.HostDisk{Path: dir + "/etc/kiln-new.img", Type: v1.HostDiskExistsOrCreate, Capacity: size}); err == nil {
		t.Error("a file was created through a link that leads out")
	}
	if _, err := host.hostDisk(&v1.HostDisk{Path: dir + "/zero.img", Type: v1.HostDiskExistsOrCreate}); err == nil {
		t.Error("a disk without capacity was created")
	}
}

// TestClaimsOfOthers: the name of a claim leads nowhere but to that claim.
func TestClaimsOfOthers(t *testing.T) {
	host, _ := testHost(t)
	if volume, err := host.claim("shop", "data"); err != nil || volume.Network == nil {
		t.Errorf("the namespace's own: %+v, %v", volume, err)
	}
	for _, name := range []string{"../shop/data", "shop/data", "..", "./data"} {
		if volume, err := host.claim("other", name); err == nil || !strings.Contains(err.Error(), "no claim has this name") {
			t.Errorf("'%s': %+v, %v", name, volume, err)
		}
	}
}

func TestNoRootServesNoFiles(t *testing.T) {
	host := &Host{State: t.TempDir()}
	if _, err := host.hostDisk(&v1.HostDisk{Path: "/etc/passwd"}); err == nil || !strings.Contains(err.Error(), "--volume-root") {
		t.Errorf("got %v, want the flag's name", err)
	}
	if _, err := host.containerDisk(&v1.ContainerDiskSource{Image: "demo"}, "x"); err == nil || !strings.Contains(err.Error(), "--volume-root") {
		t.Errorf("got %v, want the flag's name", err)
	}
}

func TestImagesStayBelowTheirRoot(t *testing.T) {
	needQemuImg(t)
	host, dir := testHost(t)
	file := filepath.Join(t.TempDir(), "overlay.qcow2")
	for _, test := range []struct{ name, image, path, want string }{
		{name: "the one disk", image: "registry.example/demo:1"},
		{name: "named", image: "registry.example/demo:1", path: "/disk/root.img"},
		{name: "dots in the image", image: "../../outside.img", want: "not a name"},
		{name: "absolute image", image: "/etc", want: "not a name"},
		{name: "dots in the path", image: "registry.example/demo:1", path: "/../../../../etc/passwd", want: "does not exist"},
		{name: "link in the tree", image: "registry.example/demo:1", path: "/boot/evil", want: "cannot be served"},
		{name: "no image", image: "", want: "not a name"},
		{name: "unknown image", image: "registry.example/none", want: "does not exist"},
	} {
		t.Run(test.name, func(t *testing.T) {
			volume, err := host.containerDisk(&v1.ContainerDiskSource{Image: test.image, Path: test.path}, file)
			switch {
			case test.want == "" && (err != nil || volume.Backing != filepath.Join(dir, "containers/registry.example/demo:1/disk/root.img")):
				t.Errorf("got %+v, %v", volume, err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("got %+v, %v, want an error with '%s'", volume, err, test.want)
			}
		})
	}
}

// An image of an unknown author may name any file of the host as its backing file.
func TestImagesMayNotReferToOtherFiles(t *testing.T) {
	needQemuImg(t)
	dir := t.TempDir()
	base, evil := filepath.Join(dir, "base.img"), filepath.Join(dir, "evil.qcow2")
	if err := os.WriteFile(base, make1MiB(), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := qemuImg("create", "-q", "-f", "qcow2", "-F", "raw", "-b", base, evil); err != nil {
		t.Fatal(err)
	}
	if _, err := probe(evil); err == nil || !strings.Contains(err.Error(), "refers to another file") {
		t.Errorf("got %v, want a refusal", err)
	}
}

func needQemuImg(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("qemu-img"); err != nil {
		t.Fatal("qemu-img is missing: install qemu-utils")
	}
}

func TestNoCloudISO(t *testing.T) {
	file := filepath.Join(t.TempDir(), "seed.iso")
	vmi := &v1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Name: "web.one", Namespace: "shop"}}
	source := &v1.CloudInitNoCloudSource{UserData: "#cloud-config\n", NetworkDataBase64: "dmVyc2lvbjogMg=="}
	if err := noCloud(file, vmi, source); err != nil {
		t.Fatal(err)
	}
	in, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	image, err := iso9660.OpenImage(in)
	if err != nil {
		t.Fatal(err)
	}
	if label, _ := image.Label(); label != "cidata" {
		t.Errorf("label is '%s'; cloud-init looks for cidata", label)
	}
	root, err := image.RootDir()
	if err != nil {
		t.Fatal(err)
	}
	children, err := root.GetChildren()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, child := range children {
		raw, err := io.ReadAll(child.Reader())
		if err != nil {
			t.Fatal(err)
		}
		got[child.Name()] = string(raw)
	}
	want := map[string]string{
		"user-data": "#cloud-config\n", "network-config": "version: 2",
		"meta-data": "instance-id: web.one.shop\nlocal-hostname: web\n",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files of the ISO (-want +got):\n%s", diff)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v: user data often holds a password", info.Mode())
	}
}
