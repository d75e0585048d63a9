package pods

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// process is one that runs on the node, in a pod or beside them.
type process struct {
	pid int
	// kind is one of kinds.
	kind string
	// pod is the UID of its pod, empty for the programs of the node.
	pod string
	// guest is NAMESPACE_NAME of the VMI, for QEMU and the launcher.
	guest string
}

// kinds of processes: of a guest, of Kiln, of Kubernetes.
const (
	qemu, libvirtd, passt, swtpm, launcher = "QEMU", "libvirtd", "passt", "swtpm", "launcher"
	controller                             = "controller"
	kubeletProgram, apiServer              = "kubelet", "kube-apiserver"
)

// programs are the kinds by the file name of the program.
var programs = map[string]string{
	"qemu-system-x86_64": qemu, "libvirtd": libvirtd, "passt": passt, "passt.avx2": passt, "swtpm": swtpm, "launcher": launcher,
	"controller": controller, kubeletProgram: kubeletProgram, apiServer: apiServer,
}

var (
	podInCgroup = regexp.MustCompile(`/pod([0-9a-f-]{36})(/|\n)`)
	guestOfQEMU = regexp.MustCompile(`\x00guest=([^,\x00]+)`)
)

// processes returns those of the shared node. Zombies have no command line, and are none.
func processes() (found []process) {
	own, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", shared.PID))
	if err != nil {
		return nil // the node has ended
	}
	folders, _ := filepath.Glob("/proc/[0-9]*")
	for _, folder := range folders {
		line, err := os.ReadFile(filepath.Join(folder, "cmdline"))
		if err != nil || len(line) == 0 {
			continue // it has ended since
		}
		program, _, _ := strings.Cut(string(line), "\x00")
		kind := programs[filepath.Base(program)]
		if kind == "" {
			continue
		}
		p := process{kind: kind}
		if p.pid, err = strconv.Atoi(filepath.Base(folder)); err != nil {
			continue
		}
		cgroup, _ := os.ReadFile(filepath.Join(folder, "cgroup"))
		space, _ := os.Readlink(filepath.Join(folder, "ns", "pid"))
		if match := podInCgroup.FindSubmatch(cgroup); match != nil && bytes.Contains(cgroup, []byte("/"+shared.Cgroup+"/")) {
			p.pod = string(match[1])
		} else if space != own {
			continue // of another node, or of the machine
		}
		switch kind {
		case qemu:
			match := guestOfQEMU.FindSubmatch(line)
			if match == nil {
				continue // libvirt asks it what it can do
			}
			p.guest = string(match[1])
		case launcher:
			environment, _ := os.ReadFile(filepath.Join(folder, "environ"))
			if p.guest = guestOf(environment); p.guest == "" {
				continue // 'launcher devices'
			}
		}
		found = append(found, p)
	}
	return found
}

// guestOf reads the environment of a launcher.
func guestOf(environment []byte) string {
	var namespace, name string
	for _, variable := range strings.Split(string(environment), "\x00") {
		if value, is := strings.CutPrefix(variable, "POD_NAMESPACE="); is {
			namespace = value
		}
		if value, is := strings.CutPrefix(variable, "VMI_NAME="); is {
			name = value
		}
	}
	if namespace == "" || name == "" {
		return ""
	}
	return namespace + "_" + name
}

// ofGuest returns the processes of a guest's pods.
func ofGuest(all []process, guest string) (own []process) {
	pods := map[string]bool{}
	for _, p := range all {
		if p.guest == guest {
			pods[p.pod] = true
		}
	}
	for _, p := range all {
		if p.pod != "" && pods[p.pod] {
			own = append(own, p)
		}
	}
	return own
}
