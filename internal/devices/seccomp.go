package devices

import (
	"encoding/json"
	"path/filepath"
	"slices"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// passtNamespaces are the namespaces that passt moves into (isolation.c of passt), and no others. A new network namespace would open netfilter and other
// parts of the kernel's network stack to a process that has broken out of a guest.
const passtNamespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWIPC | unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWPID

// passtCalls are the system calls by which passt moves into an empty root file system within these namespaces.
var passtCalls = []string{"mount", "pivot_root", "umount2"}

// passtProfile returns the default profile of Docker and containerd for a container without capabilities, on this architecture and kernel, with the system
// calls of passt before it installs a filter of its own. It does not change the rules about clone, which may not create namespaces, and about clone3, whose
// arguments no filter can read: it does not exist.
func passtProfile() (*specs.LinuxSeccomp, error) {
	made, err := seccomp.GetDefaultProfile(&specs.Spec{Process: &specs.Process{Capabilities: &specs.LinuxCapabilities{}}})
	if err != nil {
		return nil, err
	}
	ours := append([]string{"unshare"}, passtCalls...)
	for i := range made.Syscalls { // a second rule about a call would be in conflict
		made.Syscalls[i].Names = slices.DeleteFunc(made.Syscalls[i].Names, func(name string) bool { return slices.Contains(ours, name) })
	}
	made.Syscalls = slices.DeleteFunc(made.Syscalls, func(rule specs.LinuxSyscall) bool { return len(rule.Names) == 0 })
	made.Syscalls = append(made.Syscalls,
		specs.LinuxSyscall{Names: passtCalls, Action: specs.ActAllow},
		specs.LinuxSyscall{Names: []string{"unshare"}, Action: specs.ActAllow, Args: []specs.LinuxSeccompArg{
			{Index: 0, Op: specs.OpMaskedEqual, Value: ^uint64(passtNamespaces), ValueTwo: 0}, // no other bit
		}},
	)
	return made, nil
}

// writeProfile writes the profile to the path that the localhostProfile of pods names.
func (f Folders) writeProfile() error {
	made, err := passtProfile()
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(made, "", "  ")
	if err != nil {
		return err
	}
	return writeIfChanged(filepath.Join(f.Seccomp, v1alpha1.SeccompLauncher), append(text, '\n'))
}
