// Package hardware says which disk buses and interface models the guests of Kiln have, and what each of them is. Rules, defaults, domains, records and
// policies read these tables: a new bus or model is an entry here.
package hardware

// Architectures of guests, by their names in spec.architecture.
const (
	amd64 = "amd64"
	arm64 = "arm64"
	s390x = "s390x"
)

// Architectures are all of them.
var Architectures = []string{amd64, arm64, s390x}
