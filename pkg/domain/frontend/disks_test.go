package frontend_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/domain/frontend"
	"github.com/kilnvm/kiln/pkg/record"
	"github.com/kilnvm/kiln/test/frontends"
	v1 "kubevirt.io/api/core/v1"
)

const matching = `spec: {domain: {devices: {disks: [{name: a, disk: {bus: %s}, blockSize: %s}]}}}`

// blocks is logical/physical/discard of a guest's first disk, '-' without.
func blocks(t *testing.T, in frontend.Input) string {
	t.Helper()
	size := frontends.Rendered(t, in).Devices.Disks[0].BlockIO
	if size == nil {
		return "-"
	}
	discard := uint(0)
	if size.DiscardGranularity != nil {
		discard = *size.DiscardGranularity
	}
	return fmt.Sprintf("%d/%d/%d", size.LogicalBlockSize, size.PhysicalBlockSize, discard)
}

// TestBlockSizes: the volume of the first boot decides, and no later one.
func TestBlockSizes(t *testing.T) {
	t.Parallel()
	match := "{matchVolume: {enabled: true}}"
	four := &v1.CustomBlockSize{Logical: 4096, Physical: 4096, DiscardGranularity: ptr(uint(4096))}
	was := &record.Record{BlockSizes: map[string]record.BlockSize{"a": {Logical: 512, Physical: 4096}}}
	for _, c := range []struct {
		why, size string
		fact      *v1.CustomBlockSize
		frozen    *record.Record
		want      string
	}{
		{"the volume's", match, four, nil, "4096/4096/4096"},
		{"the sizes of the first boot, although the volume has moved to another device", match, four, was, "512/4096/0"},
		{"also where nothing is known of the volume", match, nil, was, "512/4096/0"},
		{"a record of other disks says nothing", match, four, &record.Record{BlockSizes: map[string]record.BlockSize{"b": {Logical: 512, Physical: 512}}},
			"4096/4096/4096"},
		{"the user's own word", "{custom: {logical: 1024, physical: 2048}}", four, was, "1024/2048/0"},
		{"none, when it is switched off", "{matchVolume: {enabled: false}}", four, was, "-"},
	} {
		in := frontends.With(t, "amd64", "blocks", fmt.Sprintf(matching, "virtio", c.size))
		in.Frozen = c.frozen
		if c.fact != nil {
			in.Facts.BlockSizes = map[string]v1.CustomBlockSize{"a": *c.fact}
		}
		if got := blocks(t, in); got != c.want {
			t.Errorf("%s: %s, want %s", c.why, got, c.want)
		}
	}
}

// TestBlockSizesAreRecorded: what Freeze keeps is what a replay reads.
func TestBlockSizesAreRecorded(t *testing.T) {
	t.Parallel()
	in := frontends.With(t, "amd64", "blocks", fmt.Sprintf(matching, "virtio", "{matchVolume: {enabled: true}}"))
	in.Facts.BlockSizes = map[string]v1.CustomBlockSize{"a": {Logical: 512, Physical: 4096, DiscardGranularity: ptr(uint(65536))}}
	frozen := abi.Freeze(frontends.Rendered(t, in), "1")
	if diff := cmp.Diff(map[string]record.BlockSize{"a": {Logical: 512, Physical: 4096, Discard: 65536}}, frozen.BlockSizes); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
	in.Facts.BlockSizes, in.Frozen = nil, &frozen
	if got := blocks(t, in); got != "512/4096/65536" {
		t.Errorf("replayed as %s", got)
	}
}

func TestBlocksThatTheBusHasNot(t *testing.T) {
	t.Parallel()
	in := frontends.With(t, "amd64", "blocks", fmt.Sprintf(matching, "sata", "{matchVolume: {enabled: true}}"))
	in.Facts.BlockSizes = map[string]v1.CustomBlockSize{"a": {Logical: 4096, Physical: 4096}}
	_, errs := frontend.Render(in)
	if diff := cmp.Diff([]string{"Invalid value spec.domain.devices.disks[0].blockSize.matchVolume"}, kinds(errs)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
