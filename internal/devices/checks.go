package devices

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/kilnvm/kiln/pkg/pod"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"
)

// finding is something that guests may need and that the node does not have, or about which nothing is known.
type finding struct {
	text    string
	unknown bool
}

// findings of one node, in the order of docs/how-to/devices.md.
type findings []finding

func (f *findings) addMissing(format string, args ...any) {
	*f = append(*f, finding{text: fmt.Sprintf(format, args...)})
}

func (f *findings) addUnknown(format string, args ...any) {
	*f = append(*f, finding{text: fmt.Sprintf(format, args...), unknown: true})
}

// First versions that mount images as volumes without a feature gate.
var (
	leastKubelet    = version.MustParseGeneric("1.35.0")
	leastContainerd = version.MustParseGeneric("2.1.0")
)

// checkVersions checks the versions that kubelet reports of itself and of its container runtime.
func checkVersions(info corev1.NodeSystemInfo, found *findings) {
	kubelet, err := version.ParseGeneric(info.KubeletVersion)
	switch {
	case err != nil:
		found.addUnknown("kubelet: its version '%s' cannot be read; image volumes need %s or newer", info.KubeletVersion, leastKubelet)
	case kubelet.LessThan(leastKubelet):
		found.addMissing("kubelet is %s, image volumes need %s or newer", info.KubeletVersion, leastKubelet)
	}
	name, text, _ := strings.Cut(info.ContainerRuntimeVersion, "://")
	if name != "containerd" {
		return // CRI-O has the version of its kubelet
	}
	if containerd, err := version.ParseGeneric(text); err == nil && containerd.LessThan(leastContainerd) {
		found.addMissing("containerd is %s, image volumes need %s or newer", text, leastContainerd)
	}
}

// checkDevices names each device that guests cannot use on this node. described is the error of writeCDI.
func (f Folders) checkDevices(described error, found *findings) {
	for _, d := range Served {
		if fault := f.deviceFault(d); fault != "" {
			found.addMissing("%s: %s", d.Resource(), fault)
		}
	}
	if described != nil {
		found.addMissing("only containerd's %s gives devices to the user of guests: their description for CDI cannot be written: %v", ownership, described)
	}
}

// checkPasst reports whether passt can run, as far as a container with the confinement of guests' containers can see. written is the error of writeProfile.
func (f Folders) checkPasst(written error, found *findings) (runs bool) {
	before := len(*found)
	if written != nil {
		found.addMissing("passt: its seccomp profile cannot be written: %v", written)
	}
	// This container has seccompProfile RuntimeDefault.
	switch mode, err := f.seccompMode(); {
	case err != nil:
		found.addMissing("passt: whether containers have seccomp is unknown: %v", err)
	case mode == "0":
		found.addMissing("passt: containers run without seccomp, although the pod asks for profile RuntimeDefault")
	}
	for _, limit := range []struct{ file, bad string }{
		{"user/max_user_namespaces", "0"},
		{"kernel/unprivileged_userns_clone", "0"},             // Debian's kernels
		{"kernel/apparmor_restrict_unprivileged_userns", "1"}, // Ubuntu's
	} {
		// A kernel without the file has no such limit.
		if now, err := os.ReadFile(filepath.Join(f.Proc, "sys", limit.file)); err == nil && strings.TrimSpace(string(now)) == limit.bad {
			found.addMissing("passt: sysctl %s is %s: users may not make user namespaces", strings.ReplaceAll(limit.file, "/", "."), limit.bad)
		}
	}
	if confined := f.appArmor(); confined != "" {
		found.addMissing("passt: AppArmor confines containers by profile '%s', which forbids the mounts by which passt isolates itself", confined)
	}
	return len(*found) == before
}

// openFiles matches the line about open files in limits, with the soft and the hard limit. passt raises its soft limit to the hard one.
var openFiles = regexp.MustCompile(`(?m)^Max open files +\S+ +(\d+) `)

// checkOpenFiles checks for how many ports of a guest passt may open sockets. The container runtime gives this container the same limits as the containers of
// guests.
func (f Folders) checkOpenFiles(found *findings) {
	limits, err := os.ReadFile(filepath.Join(f.Proc, "self/limits"))
	if err != nil {
		return // the launcher reports what it finds
	}
	hard := openFiles.FindSubmatch(limits)
	if hard == nil {
		return // unlimited
	}
	files, err := strconv.ParseUint(string(hard[1]), 10, 64)
	if err != nil || files == 0 {
		return
	}
	switch last := pod.LastForwardedPort(files); {
	case last == 0:
		found.addMissing("passt: a container may open %d files: guests with an interface that lists no ports do not start", files)
	case last < pod.MostPort:
		found.addMissing("passt: a container may open %d files: ports 1 to %d are forwarded to an interface that lists none", files, last)
	}
}

// seccompMode returns 0 if this container has no seccomp filter, and 2 if it has one.
func (f Folders) seccompMode() (string, error) {
	const file = "self/status"
	status, err := os.ReadFile(filepath.Join(f.Proc, file))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(status)) {
		if mode, found := strings.CutPrefix(line, "Seccomp:"); found {
			return strings.TrimSpace(mode), nil
		}
	}
	return "", fmt.Errorf("%s has no field 'Seccomp'", file)
}

// appArmor returns the AppArmor profile that is enforced on this container: the runtime's default, as for guests. It returns an empty string on machines with
// SELinux, whose file has another content.
func (f Folders) appArmor() string {
	now, err := os.ReadFile(filepath.Join(f.Proc, "self/attr/current"))
	if err != nil {
		return ""
	}
	name, enforced := strings.CutSuffix(strings.TrimRight(string(now), "\n\x00"), " (enforce)")
	if !enforced {
		return ""
	}
	return name
}
