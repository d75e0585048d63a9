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

var podInCgroup = regexp.MustCompile(`/pod([0-9a-f-]{36})(/|\n)`)

// commands calls each with the processes of this machine, whose nodes share it, and their command lines. Zombies have none, and are left out.
func commands(each func(pid int, args []string)) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		line, err := os.ReadFile(file)
		if err != nil || len(line) == 0 {
			continue // it has ended since
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
			each(pid, strings.Split(string(line), "\x00"))
		}
	}
}

// guestOfQEMU returns NAMESPACE_NAME from the arguments of QEMU; empty if libvirt only asks it what it can do.
func guestOfQEMU(args []string) string {
	for _, arg := range args {
		if name, is := strings.CutPrefix(arg, "guest="); is {
			name, _, _ = strings.Cut(name, ",")
			return name
		}
	}
	return ""
}

// processes returns the processes of the shared node.
func processes() (found []process) {
	own, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", shared.PID))
	if err != nil {
		return nil // the node has ended
	}
	commands(func(pid int, args []string) {
		p := process{pid: pid, kind: programs[filepath.Base(args[0])]}
		if p.kind == "" {
			return
		}
		folder := fmt.Sprintf("/proc/%d", pid)
		cgroup, _ := os.ReadFile(filepath.Join(folder, "cgroup"))
		space, _ := os.Readlink(filepath.Join(folder, "ns", "pid"))
		if match := podInCgroup.FindSubmatch(cgroup); match != nil && bytes.Contains(cgroup, []byte("/"+shared.Cgroup+"/")) {
			p.pod = string(match[1])
		} else if space != own {
			return // of another node, or of the machine
		}
		switch p.kind {
		case qemu:
			if p.guest = guestOfQEMU(args); p.guest == "" {
				return
			}
		case launcher:
			environment, _ := os.ReadFile(filepath.Join(folder, "environ"))
			if p.guest = guestOf(environment); p.guest == "" {
				return // 'launcher devices'
			}
		}
		found = append(found, p)
	})
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
