package main

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/kilnvm/kiln/manifests/images/programs"
	"sigs.k8s.io/yaml"
)

// pluginArchive is an archive of the command line for a platform.
type pluginArchive struct {
	platform programs.Platform
	name     string
}

// krewPlugin is the manifest of a plugin of krew: https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest/
type krewPlugin struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   map[string]string `json:"metadata"`
	Spec       krewSpec          `json:"spec"`
}

type krewSpec struct {
	Version          string         `json:"version"`
	Homepage         string         `json:"homepage"`
	ShortDescription string         `json:"shortDescription"`
	Description      string         `json:"description"`
	Platforms        []krewPlatform `json:"platforms"`
}

type krewPlatform struct {
	Selector krewSelector `json:"selector"`
	URI      string       `json:"uri"`
	SHA256   string       `json:"sha256"`
	Bin      string       `json:"bin"`
}

type krewSelector struct {
	MatchLabels map[string]string `json:"matchLabels"`
}

// writeKrewManifest writes the manifest 'krew-kiln.yaml' with the digest of each archive.
func (r release) writeKrewManifest(archives []pluginArchive) error {
	plugin := krewPlugin{
		APIVersion: "krew.googlecontainertools.github.com/v1alpha2", Kind: "Plugin", Metadata: map[string]string{"name": "kiln"},
		Spec: krewSpec{
			Version: "v" + semanticVersion(r.from.Version), Homepage: "https://github.com/kilnvm/kiln",
			ShortDescription: "Check and explain KubeVirt VMs before they boot",
			Description: "Validates, explains, renders and compares manifests of KubeVirt's VirtualMachines, offline or in a cluster,\n" +
				"with the code of Kiln's admission webhook. Audits stored VMs, tests GuestPolicies, and publishes catalogs of instancetypes.\n",
		},
	}
	for _, a := range archives {
		sum, err := fileDigest(filepath.Join(r.out, a.name))
		if err != nil {
			return err
		}
		platform := krewPlatform{
			Selector: krewSelector{map[string]string{"os": a.platform.OS, "arch": a.platform.Architecture}},
			URI:      strings.TrimSuffix(r.downloads, "/") + "/" + a.name, SHA256: sum, Bin: "kubectl-kiln",
		}
		if a.platform.OS == "windows" {
			platform.Bin += ".exe"
		}
		plugin.Spec.Platforms = append(plugin.Spec.Platforms, platform)
	}
	raw, err := yaml.Marshal(plugin)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, "krew-kiln.yaml"), raw, 0o644)
}
