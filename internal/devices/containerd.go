package devices

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/pelletier/go-toml/v2"
	corev1 "k8s.io/api/core/v1"
)

// ownership is the setting that makes a device belong to the user of its container.
const ownership = "device_ownership_from_security_context"

// containerdConfig has the fields of config.toml that matter here. Versions 2 and 3 have the setting in different plugins.
type containerdConfig struct {
	Imports []string
	Plugins map[string]struct {
		Ownership *bool `toml:"device_ownership_from_security_context"`
	}
}

// criPlugins are the plugins with the setting: first the plugin of containerd 2, then of containerd 1.
var criPlugins = []string{"io.containerd.cri.v1.runtime", "io.containerd.grpc.v1.cri"}

// checkOwnership looks for the setting in containerd's configuration. Only block volumes need it, because devices have an owner by CDI. It reads files,
// because containerd's socket would give root rights on the machine.
func (f Folders) checkOwnership(info corev1.NodeSystemInfo, found *findings) {
	const without = "without it block volumes belong to root, and no guest with one starts"
	if !strings.HasPrefix(info.ContainerRuntimeVersion, "containerd://") {
		found.addUnknown("%s of '%s' is not looked at; %s", ownership, info.ContainerRuntimeVersion, without)
		return
	}
	set, err := f.ownershipIn("config.toml")
	switch {
	case err != nil:
		found.addUnknown("containerd: whether %s is set is unknown: %v; %s", ownership, err, without)
	case set == nil || !*set:
		found.addMissing("containerd: %s is not set: block volumes belong to root, and no guest with one starts", ownership)
	}
}

// ownershipIn returns the setting in a file or in the files that it imports, of which a later one wins. Nil means that no file has the setting.
func (f Folders) ownershipIn(name string) (set *bool, err error) {
	text, err := os.ReadFile(filepath.Join(f.Containerd, name))
	if err != nil {
		return nil, err
	}
	var config containerdConfig
	if err := toml.Unmarshal(text, &config); err != nil {
		return nil, err
	}
	for _, plugin := range criPlugins {
		if here := config.Plugins[plugin].Ownership; set == nil {
			set = here
		}
	}
	if name != "config.toml" {
		return set, nil // an imported file imports nothing that matters here
	}
	for _, pattern := range config.Imports {
		// Only paths below the mounted folder can be read.
		relative := strings.TrimPrefix(pattern, "/etc/containerd/")
		if filepath.IsAbs(relative) {
			return nil, fmt.Errorf("config.toml imports %s", pattern)
		}
		here, err := f.ownershipInAll(relative)
		if err != nil {
			return nil, err
		}
		if here != nil {
			set = here
		}
	}
	return set, nil
}

// ownershipInAll returns the setting in the files that match a pattern.
func (f Folders) ownershipInAll(pattern string) (set *bool, err error) {
	files, err := filepath.Glob(filepath.Join(f.Containerd, pattern))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		if file, err = filepath.Rel(f.Containerd, file); err != nil {
			return nil, err
		}
		here, err := f.ownershipIn(file)
		if err != nil {
			return nil, err
		}
		if here != nil {
			set = here
		}
	}
	return set, nil
}
