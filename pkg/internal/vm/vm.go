// Package vm has functions about the spec of a VMI that several packages need. They do not change the spec and have no defaults.
package vm
