package validate_test

import "fmt"

// blocks is a disk with blocks of these sizes in bytes.
func blocks(logical, physical int) string {
	return "disk: {}, " + custom(fmt.Sprintf("logical: %d, physical: %d", logical, physical))
}

func custom(fragment string) string { return "blockSize: {custom: {" + fragment + "}}" }

var disksBlockSizeCases = []testCase{
	{
		why:   "a size, and the volume's",
		rule:  "disks/block-size-both",
		given: disk("disk: {}, blockSize: {custom: {logical: 512, physical: 512}, matchVolume: {}}"),
		want:  forbidden("spec.domain.devices.disks[0].blockSize.matchVolume"),
	},
	{
		why:   "a size, and the volume's that is switched off",
		rule:  "disks/block-size-both",
		given: disk("disk: {}, blockSize: {custom: {logical: 512, physical: 512}, matchVolume: {enabled: false}}"),
	},
	{
		why:   "the volume's size",
		rule:  "disks/block-size-both",
		given: disk("disk: {}, blockSize: {matchVolume: {}}"),
	},
	{
		why:   "neither",
		rule:  "disks/block-size-both",
		given: disk("disk: {}, blockSize: {}"),
	},
	{
		why:    "a size that is wrong beside the volume's is not judged",
		rule:   "disks/block-size-small",
		given:  disk("disk: {}, blockSize: {custom: {logical: 1, physical: 1}, matchVolume: {}}"),
		others: []string{"disks/block-size-both"},
	},
	{
		why:   "logical blocks that are greater",
		rule:  "disks/block-size-order",
		given: disk(blocks(1024, 512)),
		want:  invalid("spec.domain.devices.disks[0].blockSize.custom.logical"),
	},
	{
		why:   "blocks of one size",
		rule:  "disks/block-size-order",
		given: disk(blocks(1024, 1024)),
	},
	{
		why:   "logical blocks that are smaller",
		rule:  "disks/block-size-order",
		given: disk(blocks(512, 1024)),
	},
	{
		why:   "logical blocks on SATA",
		rule:  "disks/block-size-sata",
		given: disk("disk: {bus: sata}, " + custom("logical: 1024, physical: 1024")),
		want:  invalid("spec.domain.devices.disks[0].blockSize.custom.logical"),
	},
	{
		why:   "logical blocks of a CD-ROM on SATA",
		rule:  "disks/block-size-sata",
		given: disk("cdrom: {bus: sata}, " + custom("logical: 1024, physical: 1024")),
		want:  invalid("spec.domain.devices.disks[0].blockSize.custom.logical"),
	},
	{
		why:   "physical blocks on SATA",
		rule:  "disks/block-size-sata",
		given: disk("disk: {bus: sata}, " + custom("logical: 512, physical: 1024")),
	},
	{
		why:   "logical blocks on virtio",
		rule:  "disks/block-size-sata",
		given: disk("disk: {bus: virtio}, " + custom("logical: 1024, physical: 1024")),
	},
	{
		why:   "half a block",
		rule:  "disks/discard-granularity",
		given: disk("disk: {}, " + custom("logical: 1024, physical: 1024, discardGranularity: 512")),
		want:  invalid("spec.domain.devices.disks[0].blockSize.custom.discardGranularity"),
	},
	{
		why:   "two blocks",
		rule:  "disks/discard-granularity",
		given: disk("disk: {}, " + custom("logical: 1024, physical: 1024, discardGranularity: 2048")),
	},
	{
		why:   "no granularity",
		rule:  "disks/discard-granularity",
		given: disk(blocks(1024, 1024)),
	},
	{
		why:    "nothing is a multiple of no block",
		rule:   "disks/discard-granularity",
		given:  disk("disk: {}, " + custom("logical: 0, physical: 512, discardGranularity: 512")),
		others: []string{"disks/block-size-small"},
	},
	{
		why:   "a logical and a physical block that are too small",
		rule:  "disks/block-size-small",
		given: disk(blocks(256, 256)),
		want:  invalid("spec.domain.devices.disks[0].blockSize.custom.logical", "spec.domain.devices.disks[0].blockSize.custom.physical"),
	},
	{
		why:   "one byte less than a block has",
		rule:  "disks/block-size-small",
		given: disk(blocks(512, 511)),
		want:  invalid("spec.domain.devices.disks[0].blockSize.custom.physical"),
	},
	{
		why:   "the smallest block",
		rule:  "disks/block-size-small",
		given: disk(blocks(512, 512)),
	},
	{
		why:   "one byte more than a block has",
		rule:  "disks/block-size-large",
		given: disk(blocks(512, 2<<20+1)),
		want:  invalid("spec.domain.devices.disks[0].blockSize.custom.physical"),
	},
	{
		why:   "the greatest block",
		rule:  "disks/block-size-large",
		given: disk(blocks(2<<20, 2<<20)),
	},
	{
		why:   "one byte less than the greatest block",
		rule:  "disks/block-size-power",
		given: disk(blocks(512, 2<<20-1)),
		want:  invalid("spec.domain.devices.disks[0].blockSize.custom.physical"),
	},
	{
		why:   "a power of two",
		rule:  "disks/block-size-power",
		given: disk(blocks(512, 4096)),
	},
}
