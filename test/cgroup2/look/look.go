// Package look reads the cgroups and processes of the pods of a machine with cgroups of version 2.
package look

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/kilnvm/kiln/test/cgroups"
)

// Look is what a machine has of pods.
type Look struct {
	// Unified is cgroups of version 2.
	Unified bool
	// Filesystems are the types of all mounted filesystems.
	Filesystems []string
	// Pods have cgroups, by UID.
	Pods map[string]Cgroup
	// Processes are all whose cgroup names a pod. They are found among all processes of the machine, not by the folders of cgroups.
	Processes []Process
}

// Cgroup is a cgroup.
type Cgroup struct {
	// Files are the texts of its files, without the end of line.
	Files map[string]string
	// Memory is what it has besides pages of files, in bytes.
	Memory int64
	// Containers are the cgroups in it, by name. Only pods have them.
	Containers map[string]Cgroup
}

// Process is a process of a pod.
type Process struct {
	// Pod is the UID of the pod, and Container the name of the container's cgroup.
	Pod, Container string
	// Program is the first word of the command line, and CPUs are where the process may run.
	Program, CPUs string
}

// files of cgroups that are read.
var files = []string{"memory.max", "memory.current", "memory.peak", "memory.events", "memory.oom.group", "cpu.max", "cpuset.cpus.effective"}

// At reads what this machine has of the pods of a node, which is named by its cgroup.
func At(node string) (l Look, err error) {
	groups, err := cgroups.Read()
	if err != nil {
		return l, err
	}
	l.Unified = groups.Unified
	mounts, err := os.ReadFile("/proc/1/mounts")
	if err != nil {
		return l, err
	}
	for line := range strings.Lines(string(mounts)) {
		l.Filesystems = append(l.Filesystems, strings.Fields(line)[2])
	}
	pods, err := groups.Pods("memory", node)
	if err != nil {
		return l, err
	}
	l.Pods = map[string]Cgroup{}
	for uid, folder := range pods {
		pod, err := read(folder)
		if err == nil {
			pod.Containers, err = containers(folder)
		}
		if errors.Is(err, fs.ErrNotExist) {
			continue // it has ended meanwhile
		}
		if err != nil {
			return l, err
		}
		l.Pods[uid] = pod
	}
	l.Processes, err = processes()
	return l, err
}

func containers(pod string) (map[string]Cgroup, error) {
	folders, err := cgroups.Containers(pod)
	if err != nil {
		return nil, err
	}
	all := map[string]Cgroup{}
	for _, folder := range folders {
		container, err := read(folder)
		if err != nil {
			return nil, err
		}
		all[filepath.Base(folder)] = container
	}
	return all, nil
}

func read(folder string) (c Cgroup, err error) {
	c.Files = map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(folder, file))
		if err != nil {
			return c, err
		}
		c.Files[file] = strings.TrimSpace(string(text))
	}
	c.Memory, err = cgroups.Memory(folder)
	return c, err
}

// podInCgroup matches the line of /proc/PID/cgroup of a process in a container.
var podInCgroup = regexp.MustCompile(`/pod([0-9a-f-]{36})/([^/\n]+)`)

func processes() (all []Process, err error) {
	folders, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	for _, folder := range folders {
		cgroup, err := os.ReadFile(filepath.Join(folder, "cgroup"))
		if err != nil {
			continue // it has ended
		}
		match := podInCgroup.FindSubmatch(cgroup)
		if match == nil {
			continue
		}
		command, _ := os.ReadFile(filepath.Join(folder, "cmdline"))
		program, _, _ := strings.Cut(string(command), "\x00")
		status, _ := os.ReadFile(filepath.Join(folder, "status"))
		_, rest, _ := strings.Cut(string(status), "Cpus_allowed_list:")
		cpus, _, _ := strings.Cut(rest, "\n")
		all = append(all, Process{Pod: string(match[1]), Container: string(match[2]), Program: program, CPUs: strings.TrimSpace(cpus)})
	}
	return all, nil
}

// Number returns a number of a file; zero if it is 'max' or missing.
func (c Cgroup) Number(file string) int64 {
	number, _ := strconv.ParseInt(c.Files[file], 10, 64)
	return number
}
