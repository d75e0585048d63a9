// Package cgroups finds the cgroups of the tests' nodes and of their pods, on machines with cgroups of version 1 and of version 2. A cgroup that does not exist
// is an error, not an empty answer: a test that looks in the wrong place must not pass.
package cgroups

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// root is where the cgroups of every Linux machine are mounted.
const root = "/sys/fs/cgroup"

// Machine is where a machine has its cgroups. Version 1 has a hierarchy for each controller, or for some together; version 2 has one for all.
type Machine struct {
	// Unified is version 2. A hierarchy of version 2 beside hierarchies of version 1 has no controllers, and does not count.
	Unified bool

	hierarchies []hierarchy
}

// hierarchy is a mounted tree of cgroups that can be written to.
type hierarchy struct {
	folder      string
	controllers []string
}

// Read returns where this machine has its cgroups.
func Read() (Machine, error) {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return Machine{}, err
	}
	return parse(string(mounts), root)
}

// parse reads the lines of proc_pid_mounts(5). Like kubelet and runc, it takes what is mounted at the root for the version.
func parse(mounts, root string) (m Machine, err error) {
	for line := range strings.Lines(mounts) {
		fields := strings.Fields(line)
		if len(fields) < 4 {
			continue
		}
		folder, options := fields[1], strings.Split(fields[3], ",")
		if !slices.Contains(options, "rw") {
			continue
		}
		switch {
		case fields[2] == "cgroup":
			m.hierarchies = append(m.hierarchies, hierarchy{folder, options}) // other options have no name of a controller
		case fields[2] == "cgroup2" && folder == root:
			text, err := os.ReadFile(filepath.Join(folder, "cgroup.controllers"))
			if err != nil {
				return Machine{}, err
			}
			return Machine{Unified: true, hierarchies: []hierarchy{{folder, strings.Fields(string(text))}}}, nil
		}
	}
	if len(m.hierarchies) == 0 {
		return Machine{}, errors.New("no cgroups are mounted that can be written to")
	}
	return m, nil
}

// Root returns the folder of the hierarchy with a controller.
func (m Machine) Root(controller string) (string, error) {
	for _, h := range m.hierarchies {
		if slices.Contains(h.controllers, controller) {
			return h.folder, nil
		}
	}
	return "", fmt.Errorf("this machine has no cgroups that can be written to with controller '%s'", controller)
}

// Folders returns the folders of the cgroup name, in all hierarchies that have it, and the number of hierarchies.
func (m Machine) Folders(name string) (folders []string, hierarchies int, err error) {
	for _, h := range m.hierarchies {
		folder := filepath.Join(h.folder, name)
		switch _, err := os.Stat(folder); {
		case err == nil:
			folders = append(folders, folder)
		case !errors.Is(err, fs.ErrNotExist):
			return nil, 0, err
		}
	}
	return folders, len(m.hierarchies), nil
}

// Pods returns the folders of the pods of a node by the UIDs of the pods, in the hierarchy with a controller. The node is named by the cgroup that is kubelet's
// root. A node that is not there, or whose kubelet has made no cgroup for pods, is an error.
func (m Machine) Pods(controller, node string) (map[string]string, error) {
	root, err := m.Root(controller)
	if err != nil {
		return nil, err
	}
	all := filepath.Join(root, node, "kubepods")
	if _, err := os.Stat(all); err != nil {
		return nil, fmt.Errorf("the cgroup of all pods: %w", err)
	}
	pods := map[string]string{}
	for _, class := range []string{"", "burstable", "besteffort"} { // pods of class Guaranteed have no folder of their class
		entries, err := os.ReadDir(filepath.Join(all, class))
		if err != nil {
			return nil, fmt.Errorf("the cgroups of pods: %w", err)
		}
		for _, entry := range entries {
			if uid, is := strings.CutPrefix(entry.Name(), "pod"); is && entry.IsDir() {
				pods[uid] = filepath.Join(all, class, entry.Name())
			}
		}
	}
	return pods, nil
}

// Pod returns the folder of a pod of a node, which must be there, in the hierarchy with a controller. The error of a pod without a folder is fs.ErrNotExist.
func (m Machine) Pod(controller, node, uid string) (string, error) {
	pods, err := m.Pods(controller, node)
	if err != nil {
		return "", err
	}
	folder := pods[uid]
	if folder == "" {
		return "", fmt.Errorf("node '%s' has no cgroup of pod %s with controller '%s': %w", node, uid, controller, fs.ErrNotExist)
	}
	return folder, nil
}

// Containers returns the folders of the containers of a pod, by the folder of the pod. One of them is the sandbox, which keeps the pod's namespaces.
func Containers(pod string) (folders []string, err error) {
	entries, err := os.ReadDir(pod)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		if entry.IsDir() {
			folders = append(folders, filepath.Join(pod, entry.Name()))
		}
	}
	return folders, nil
}
