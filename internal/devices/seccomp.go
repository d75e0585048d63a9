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

// passtNamespaces are those that passt moves into (isolation.c of passt), and no others: a network namespace of one's own opens netfilter and the other
// parts of the kernel's network stack to whoever has broken out of a guest.
const passtNamespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWIPC | unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWPID

// passtCalls leave passt an empty root file system within these namespaces.
var passtCalls = []string{"mount", "pivot_root", "umount2"}

// profile is the default one of Docker and containerd for a container without capabilities, on the architecture and the kernel that this runs on, and
// what passt calls before it installs a filter of its own. clone and clone3 stay as they are there: the one makes no namespaces, and the other, whose
// arguments no filter can read, does not exist.
func profile() (*specs.LinuxSeccomp, error) {
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

// writeProfile installs it where the localhostProfile of pods finds it.
func (f Folders) writeProfile() error {
	made, err := profile()
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(made, "", "  ")
	if err != nil {
		return err
	}
	return keep(filepath.Join(f.Seccomp, v1alpha1.SeccompLauncher), append(text, '\n'))
}
