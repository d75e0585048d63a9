// Package vm answers questions about a guest's spec that several packages ask. It changes nothing and holds no default.
package vm

// Annotations that rules and stage 2 name too; package pipeline documents them.
const (
	AnnotationPins       = "kilnvm.io/pins"
	AnnotationIdentity   = "kilnvm.io/identity"
	AnnotationGeneration = "kilnvm.io/generation"
	AnnotationFrontend   = "kilnvm.io/frontend"
	AnnotationHardware   = "kilnvm.io/hardware"
)

// HardwareLatest is the one value of AnnotationHardware.
const HardwareLatest = "latest"
