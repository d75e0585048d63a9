package hostresources

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"
)

func emptyDiskOf(size string) *v1.EmptyDiskSource {
	return &v1.EmptyDiskSource{Capacity: resource.MustParse(size)}
}

// TestWholeBlocks: each image that a pod makes ends with a block of 4 KiB, whatever the length of its data, and QEMU opens it for writing on storage with such
// blocks. A file is one sector of 2 KiB for each 2048 bytes: the lengths are those at which the number of sectors changes.
func TestWholeBlocks(t *testing.T) {
	inline := map[string]func(text string) v1.VolumeSource{
		"NoCloud": func(text string) v1.VolumeSource {
			return v1.VolumeSource{CloudInitNoCloud: &v1.CloudInitNoCloudSource{UserData: text}}
		},
		"ConfigDrive": func(text string) v1.VolumeSource {
			return v1.VolumeSource{CloudInitConfigDrive: &v1.CloudInitConfigDriveSource{UserData: text, NetworkData: text}}
		},
	}
	for _, length := range []int{1, 10, 2047, 2048, 2049, 4095, 4096, 4097, 6144, 6145, 60000} {
		text := strings.Repeat("x", length)
		files := map[string]string{"/volumes/data/key": text, "/volumes/data/a.img": text}
		for kind, source := range everyImage() {
			if kind == "claim" || kind == "ephemeral" {
				continue // the disks of others
			}
			if kind == "containerDisk" {
				source.ContainerDisk.Path = "a.img"
			}
			if given, has := inline[kind]; has {
				source = given(text)
			}
			bound, errs := mounted(t, files).Bind(t.Context(), having(source))
			if refused(t, kind, "", errs.ToAggregate()); len(errs) > 0 {
				continue
			}
			volume := bound.Volumes["data"]
			info, err := os.Stat(volume.Path)
			if err != nil {
				t.Fatal(err)
			}
			if volume.Format == "raw" && info.Size()%4096 != 0 {
				t.Errorf("%s of %d bytes: the image has %d bytes, which is no whole number of blocks", kind, length, info.Size())
			}
			if slices.Contains([]int{10, 2049, 4097}, length) {
				if output := opened(t, volume, "driver=blkdebug,align=4096"); output != "" {
					t.Errorf("%s of %d bytes: QEMU says %q on storage with blocks of 4 KiB", kind, length, output)
				}
			}
		}
	}
}

// TestWholeBlocksOfDisks: disks that are made for a capacity have at least that many bytes.
func TestWholeBlocksOfDisks(t *testing.T) {
	for size, want := range map[int64]int64{0: 0, 1: 4096, 4095: 4096, 4096: 4096, 4097: 8192, 1 << 62: 1 << 62, 1<<63 - 1: 1<<63 - 1, -1: -1} {
		if got := roundUpToBlock(size); got != want {
			t.Errorf("%d bytes become %d, want %d", size, got, want)
		}
	}
	host, dir := testHost(t)
	disk := &v1.HostDisk{Path: filepath.Join(dir, "new.img"), Type: v1.HostDiskExistsOrCreate, Capacity: resource.MustParse("1000001")}
	if _, err := host.hostDisk(disk); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(dir, "new.img")); err != nil || info.Size() != 1003520 {
		t.Errorf("a hostDisk of 1000001 bytes has %d (%v), want 1003520", info.Size(), err)
	}
}
