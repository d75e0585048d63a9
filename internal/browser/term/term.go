// Package term stands in for github.com/moby/term, which does not compile for GOOS=js. k8s.io/cli-runtime asks it only whether an output is a terminal.
package term

// GetFdInfo reports that nothing is a terminal: a web page has none.
func GetFdInfo(any) (fd uintptr, isTerminal bool) { return 0, false }
