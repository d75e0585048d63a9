package hostresources

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"
)

// testHost serves a fresh folder that holds a raw image, a link that stays inside and links that lead out.
func testHost(t *testing.T) (*BareMachine, string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	outside, claims := filepath.Join(filepath.Dir(dir), "outside.img"), t.TempDir()
	tree := filepath.Join(dir, "containers", "registry.example", "demo:1")
	for _, make := range []func() error{
		func() error { return os.WriteFile(outside, []byte("secret"), 0o600) },
		func() error { return os.MkdirAll(filepath.Join(tree, "disk"), 0o755) },
		func() error { return os.MkdirAll(filepath.Join(tree, "boot"), 0o755) },
		func() error { return os.Mkdir(filepath.Join(dir, "folder"), 0o755) },
		func() error { return os.Mkdir(filepath.Join(claims, "shop"), 0o700) },
		func() error { return os.WriteFile(filepath.Join(claims, "shop", "data.key"), []byte("key"), 0o600) },
		func() error {
			return os.WriteFile(filepath.Join(claims, "shop", "data.yaml"), []byte(hostClaim+"{network: {protocol: nbd, hosts: [{name: disks.example}]}}"), 0o600)
		},
		func() error { return os.WriteFile(filepath.Join(dir, "disk.img"), make1MiB(), 0o600) },
		func() error { return os.WriteFile(filepath.Join(tree, "disk", "root.img"), make1MiB(), 0o600) },
		func() error { return os.WriteFile(filepath.Join(tree, "boot", "vmlinuz"), []byte("kernel"), 0o600) },
		func() error { return os.Symlink("disk.img", filepath.Join(dir, "inside.img")) },
		func() error { return os.Symlink(outside, filepath.Join(dir, "link.img")) },
		func() error { return os.Symlink("/etc", filepath.Join(dir, "etc")) },
		func() error { return os.Symlink("containers", filepath.Join(dir, "all-images")) },
		func() error { return unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600) },
		func() error { return unix.Mknod(filepath.Join(dir, "null"), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))) },
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
	described, err := OpenClaims(claims)
	if err != nil {
		t.Fatal(err)
	}
	return &BareMachine{Volumes: root, Claims: described, State: t.TempDir()}, dir
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
		{name: "images by a link", path: dir + "/all-images/registry.example/demo:1/disk/root.img", want: "administrator",
			why: "the target of an administrator's link counts"},
		{name: "keys of old", path: dir + "/claims", want: "administrator", why: "they may have been left there"},
		{name: "pipe", path: dir + "/pipe", want: "not a regular file", why: "to open it would take until somebody writes"},
		{name: "character device", path: dir + "/null", want: "not a regular file", why: "a character device is not a disk"},
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
				t.Errorf("the error reveals the target of the link: %v", err)
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
	evil := dir + "/all-images/registry.example/demo:1/disk/more.img"
	_, err = host.hostDisk(&v1.HostDisk{Path: evil, Type: v1.HostDiskExistsOrCreate, Capacity: size})
	if err == nil || !strings.Contains(err.Error(), "administrator") {
		t.Errorf("got %v, want a refusal: the link leads to the images", err)
	}
	if _, err := os.Stat(evil); !os.IsNotExist(err) {
		t.Errorf("a file was created in an image: %v", err)
	}
}

// TestHostDiskThatCannotBe: a disk that cannot have its size is refused however often it is asked for, and leaves nothing. One that is there
// is served as it is.
func TestHostDiskThatCannotBe(t *testing.T) {
	host, dir := testHost(t)
	before, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		huge := &v1.HostDisk{Path: dir + "/huge.img", Type: v1.HostDiskExistsOrCreate, Capacity: resource.MustParse("8Ei")}
		if volume, err := host.hostDisk(huge); err == nil || !strings.Contains(err.Error(), "cannot have 9223372036854775807 bytes") {
			t.Errorf("got %+v, %v, want a refusal", volume, err)
		}
	}
	there := &v1.HostDisk{Path: dir + "/disk.img", Type: v1.HostDiskExistsOrCreate, Capacity: resource.MustParse("3Mi")}
	if _, err := host.hostDisk(there); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(dir + "/disk.img"); err != nil || info.Size() != 1<<20 {
		t.Errorf("the disk that was there is now %v, %v", info, err)
	}
	if after, err := os.ReadDir(dir); err != nil || len(after) != len(before) {
		t.Errorf("%v, the folder holds %v, held %v", err, after, before)
	}
}

// TestClaimsOfOthers: the name of a claim leads nowhere but to that claim.
func TestClaimsOfOthers(t *testing.T) {
	host, _ := testHost(t)
	if volume, err := host.hostClaimVolume("shop", "data"); err != nil || volume.Network == nil {
		t.Errorf("the namespace's own: %+v, %v", volume, err)
	}
	for _, name := range []string{"../shop/data", "shop/data", "..", "./data"} {
		if volume, err := host.hostClaimVolume("other", name); err == nil || !strings.Contains(err.Error(), "is invalid") {
			t.Errorf("'%s': %+v, %v", name, volume, err)
		}
	}
}

func TestNoRootServesNoFiles(t *testing.T) {
	host := &BareMachine{State: t.TempDir()}
	if _, err := host.hostDisk(&v1.HostDisk{Path: "/etc/passwd"}); err == nil || !strings.Contains(err.Error(), "--volume-root") {
		t.Errorf("got %v, want the flag's name", err)
	}
	if _, err := host.containerDisk(t.Context(), &v1.ContainerDiskSource{Image: "demo"}, "x"); err == nil || !strings.Contains(err.Error(), "--volume-root") {
		t.Errorf("got %v, want the flag's name", err)
	}
}
