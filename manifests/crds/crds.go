// Package crds embeds the definitions of the kinds that Kiln serves. 'kubectl kiln' checks manifests against them without a cluster.
package crds

import "embed"

// Files has one YAML file for each kind. The name of the file is the plural in lower case. Each of Kiln's own kinds has a folder.
//
//go:embed virtualmachine*.yaml hostprofiles/hostprofiles.yaml guesthardwares/guesthardwares.yaml guestpods/guestpods.yaml guestprofiles/guestprofiles.yaml
//go:embed clusterguestprofiles/clusterguestprofiles.yaml guestpolicies/guestpolicies.yaml guestpolicyexceptions/guestpolicyexceptions.yaml
//go:embed frontendprofiles/frontendprofiles.yaml
var Files embed.FS
