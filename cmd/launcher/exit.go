package main

import "errors"

// exitStatus returns 0 for success, 1 if a VMI is refused or the launcher cannot go on, and 2 for wrong usage, a file that cannot be read or a
// cluster that does not answer, like 'kubectl kiln'.
func exitStatus(err error) int {
	var wrong misuse
	var no failure
	switch {
	case err == nil:
		return 0
	case errors.As(err, &no) && !errors.As(err, &wrong):
		return 1
	}
	return 2 // this includes errors of cobra, such as an unknown flag, which have no type
}

// failure is the error of a command that was used correctly and whose result is negative.
type failure struct{ error }

func (f failure) Unwrap() error { return f.error }

// asFailure marks an error as the result of a command, with exit status 1. Nil stays nil.
func asFailure(err error) error {
	if err == nil {
		return nil
	}
	return failure{err}
}

// misuse is wrong usage that the command itself reports, not cobra. It may be inside a failure.
type misuse struct{ error }
