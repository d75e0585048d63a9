package launcher

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/manifests/images/containerfile"
	"github.com/kilnvm/kiln/manifests/images/debian"
	"github.com/kilnvm/kiln/manifests/images/programs"
)

// TestContainerfile: who builds the image with podman or docker gets the same tree, the same account and the same program.
func TestContainerfile(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("Containerfile")
	if err != nil {
		t.Fatal(err)
	}
	stated, err := containerfile.Read(string(text), strings.NewReplacer("$VERSION", "v1", "$REVISION", "4f1c"))
	if err != nil {
		t.Fatal(err)
	}
	const taken = "go run ./manifests/images -tree launcher >/tree.tar"
	if diff := cmp.Diff([]string{"/", "/launcher"}, stated.Copies); diff != "" || !strings.Contains(string(text), taken) {
		t.Errorf("the files are not Tree and the launcher: %s", diff)
	}
	if diff := cmp.Diff(imageConfig(programs.Sources{Version: "v1", Revision: "4f1c"}), stated.Config); diff != "" {
		t.Errorf("configuration: -builder +Containerfile\n%s", diff)
	}
}

// TestFiles: which files of packages the image has.
func TestFiles(t *testing.T) {
	t.Parallel()
	for architecture, want := range map[string]map[string]bool{
		"amd64": {
			"usr/bin/qemu-system-x86_64": true, "usr/bin/qemu-system-i386": false, "usr/bin/qemu-img": true, "usr/bin/qemu-nbd": false, "usr/bin/perl": false,
			"usr/bin/passt": true, "usr/bin/passt.avx2": true, "usr/bin/pasta": false, "usr/bin/certtool": true, "usr/sbin/libvirtd": true,
			"usr/lib/x86_64-linux-gnu/libc.so.6": true, "usr/lib/x86_64-linux-gnu/gconv/BIG5.so": false, "usr/lib64/ld-linux-x86-64.so.2": true,
			"usr/lib/x86_64-linux-gnu/qemu/hw-usb-redirect.so": true, "usr/lib/x86_64-linux-gnu/qemu/audio-alsa.so": false,
			"usr/share/seabios/vgabios-virtio.bin": true, "usr/share/OVMF/OVMF_CODE_4M.secboot.fd": true, "usr/share/OVMF/OVMF_VARS_4M.snakeoil.fd": false,
			"usr/share/qemu/keymaps/de": true, "usr/share/qemu/firmware/60-edk2-x86_64.json": true, "usr/share/qemu/slof.bin": false,
			"usr/share/libvirt/cpu_map/index.xml": true, "usr/share/doc/passt/copyright": true, "usr/share/doc/passt/changelog.gz": false,
			"usr/share/man/man1/passt.1.gz": false, "usr/share/locale/de/LC_MESSAGES/libvirt.mo": false, "etc/passwd": false, "etc/libvirt/qemu.conf": false,
			"etc/swtpm_setup.conf": true, "var/lib/dpkg/status": false, "usr/lib/systemd/system/libvirtd.service": false,
		},
		"arm64": {
			"usr/bin/qemu-system-aarch64": true, "usr/bin/qemu-system-arm": false, "usr/bin/qemu-system-x86_64": false, "usr/lib/ld-linux-aarch64.so.1": true,
			"usr/lib/aarch64-linux-gnu/libc.so.6": true, "usr/share/AAVMF/AAVMF_CODE.fd": true, "usr/share/AAVMF/AAVMF_VARS.snakeoil.fd": false,
		},
	} {
		taken, found := debianSet(architecture)
		if !found {
			t.Fatalf("no set for %s", architecture)
		}
		for file, wanted := range want {
			if debian.Wanted(taken.Files, file) != wanted {
				t.Errorf("%s: '%s' is wanted: %t", architecture, file, !wanted)
			}
		}
	}
	amd64, _ := debianSet("amd64")
	if arm64, _ := debianSet("arm64"); slices.Contains(arm64.Packages, "ovmf") || !slices.Contains(amd64.Packages, "ovmf") {
		t.Error("firmware of the other architecture")
	}
}

// TestOtherPlatforms: the message names those that there are.
func TestOtherPlatforms(t *testing.T) {
	t.Parallel()
	for _, p := range []programs.Platform{{OS: "linux", Architecture: "s390x"}, {OS: "darwin", Architecture: "arm64"}} {
		_, err := Tree(t.Context(), p, Folders{Cache: t.TempDir()})
		if err == nil || !strings.Contains(err.Error(), "linux on amd64, arm64, not for "+p.String()) {
			t.Errorf("%s: %v", p, err)
		}
	}
}
