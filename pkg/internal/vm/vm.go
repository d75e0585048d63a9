// Package vm answers questions about a guest's spec that several packages ask. It changes nothing and holds no default.
package vm
