package main

import "errors"

// exitStatus is what a shell is told: 0, 1 if a VMI is refused or the launcher cannot go on, and 2 for wrong usage, a file that cannot be
// read or a cluster that does not answer, as 'kubectl kiln' has it.
func exitStatus(err error) int {
	var wrong misuse
	var no failure
	switch {
	case err == nil:
		return 0
	case errors.As(err, &no) && !errors.As(err, &wrong):
		return 1
	}
	return 2 // those of cobra too, which have no type
}

// failure is the error of a command that was understood, and whose answer is no.
type failure struct{ error }

func (f failure) Unwrap() error { return f.error }

func failed(err error) error {
	if err == nil {
		return nil
	}
	return failure{err}
}

// misuse is wrong usage that a command finds itself.
type misuse struct{ error }
