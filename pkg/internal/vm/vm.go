// Package vm answers questions about the spec of a VMI that several packages ask, so that each answer is in one place. It changes nothing and has no
// defaults.
package vm
