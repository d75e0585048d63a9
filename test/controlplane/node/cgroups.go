package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// cgroupPrefix is followed by the process ID of the owner and the number of the node.
const cgroupPrefix = "kiln-node-"

func cgroupName(number int) string { return fmt.Sprintf("%s%d-%d", cgroupPrefix, os.Getpid(), number) }

// cgroupHierarchies returns the mount points of all cgroups. kubelet uses the hierarchies of version 1, and runc creates a cgroup in an empty hierarchy of
// version 2, too.
func cgroupHierarchies() ([]string, error) {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil, err
	}
	var points []string
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); len(fields) > 2 && (fields[2] == "cgroup" || fields[2] == "cgroup2") {
			points = append(points, fields[1])
		}
	}
	if len(points) == 0 {
		return nil, errors.New("no hierarchy of cgroups is mounted")
	}
	return points, nil
}

// nodeWeights are the files with the weight of a cgroup among others, of both versions, and eight times their defaults. All pods of a node are in one cgroup,
// which has the default weight of one process outside of it. Beside two dozen busy processes of other tests the pods got so little CPU time that kubelet killed
// them for late answers to probes. On a machine of its own, a node has no such neighbours.
var nodeWeights = map[string]string{"cpu.shares": "8192", "cpu.weight": "800"}

// makeCgroup makes the cgroup in every hierarchy. A new cpuset of version 1 has neither CPUs nor memory, and takes no process.
func makeCgroup(name string) error {
	points, err := cgroupHierarchies()
	if err != nil {
		return err
	}
	for _, point := range points {
		if err := delegateControllers(point); err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Join(point, name), 0o755); err != nil {
			return err
		}
		for file, weight := range nodeWeights {
			at := filepath.Join(point, name, file)
			if _, err := os.Stat(at); errors.Is(err, os.ErrNotExist) {
				continue // another hierarchy or version
			}
			if err := os.WriteFile(at, []byte(weight), 0o644); err != nil {
				return err
			}
		}
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			all, err := os.ReadFile(filepath.Join(point, file))
			if errors.Is(err, os.ErrNotExist) {
				continue // another hierarchy
			}
			if err := errors.Join(err, os.WriteFile(filepath.Join(point, name, file), all, 0o644)); err != nil {
				return err
			}
		}
	}
	return nil
}

// delegateControllers gives the cgroups below a hierarchy of version 2 all of its controllers: kubelet ends if its root lacks one that the hierarchy has. A
// hierarchy of version 1 has no such files, and a hierarchy of version 2 beside it has no controllers.
func delegateControllers(point string) error {
	all, err := os.ReadFile(filepath.Join(point, "cgroup.controllers"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	file := filepath.Join(point, "cgroup.subtree_control")
	given, failed := os.ReadFile(file)
	if err := errors.Join(err, failed); err != nil {
		return err
	}
	var lacking []string
	for _, controller := range strings.Fields(string(all)) {
		if !slices.Contains(strings.Fields(string(given)), controller) {
			lacking = append(lacking, "+"+controller)
		}
	}
	if len(lacking) == 0 {
		return nil
	}
	if err := os.WriteFile(file, []byte(strings.Join(lacking, " ")), 0o644); err != nil {
		return fmt.Errorf("giving controllers to the cgroups below %s, in which no process may be unless it is the machine's root: %w", point, err)
	}
	return nil
}

// removeCgroup removes the cgroup with all below it. Processes that were killed leave theirs a little later.
func removeCgroup(name string) error {
	points, err := cgroupHierarchies()
	if err != nil {
		return err
	}
	var errs []error
	for _, point := range points {
		root := filepath.Join(point, name)
		for range 100 {
			err = removeTree(root)
			if !errors.Is(err, unix.EBUSY) {
				break
			}
			time.Sleep(50 * time.Millisecond)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// removeTree removes directories only: the files of a cgroup go with it.
func removeTree(root string) error {
	var dirs []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			dirs = append(dirs, path)
		}
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return err
	})
	for i := len(dirs) - 1; i >= 0 && err == nil; i-- {
		if err = os.Remove(dirs[i]); errors.Is(err, os.ErrNotExist) {
			err = nil
		}
	}
	return err
}

// sweepCgroups removes those whose owner was killed: nobody else can. A process ID that is in use again keeps one for longer,
// which does no harm, and one that has processes refuses to be removed.
func sweepCgroups() error {
	points, err := cgroupHierarchies()
	if err != nil {
		return err
	}
	for _, point := range points {
		left, err := filepath.Glob(filepath.Join(point, cgroupPrefix+"*-*"))
		if err != nil {
			return err
		}
		for _, root := range left {
			owner, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(root), cgroupPrefix), "-")
			if _, err := strconv.Atoi(owner); err != nil {
				continue
			}
			if _, err := os.Stat(filepath.Join("/proc", owner)); errors.Is(err, os.ErrNotExist) {
				_ = removeTree(root) // another process may be sweeping too
			}
		}
	}
	return nil
}
