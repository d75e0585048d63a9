// Package hardware describes the disk buses and interface models that guests of Kiln can have. Rules, defaults, domains, records and policies read these
// tables: a new bus or model is an entry here.
package hardware

// Architectures of guests, by their names in spec.architecture.
const (
	amd64 = "amd64"
	arm64 = "arm64"
	s390x = "s390x"
)

// Architectures are the names of all architectures.
var Architectures = []string{amd64, arm64, s390x}
