// Package hardware says which disk buses and interface models the guests of Kiln have, and what each of them is. Rules, defaults, domains, records and
// policies read these tables: a new bus or model is an entry here.
package hardware

// Architectures of guests, by their names in spec.architecture.
const (
	AMD64 = "amd64"
	ARM64 = "arm64"
	S390X = "s390x"
)

// Architectures are all of them.
var Architectures = []string{AMD64, ARM64, S390X}
