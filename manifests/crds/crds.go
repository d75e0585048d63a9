// Package crds embeds the definitions of the kinds that Kiln serves, as a cluster gets them. 'kubectl kiln' judges manifests by them without a
// cluster.
package crds

import "embed"

// Files has one YAML file for each kind, named by its plural in lower case. Those of Kiln's own kinds are in folders of their own.
//
//go:embed virtualmachine*.yaml hostprofiles/hostprofiles.yaml guesthardwares/guesthardwares.yaml guestpods/guestpods.yaml guestprofiles/guestprofiles.yaml
//go:embed clusterguestprofiles/clusterguestprofiles.yaml guestpolicies/guestpolicies.yaml frontendprofiles/frontendprofiles.yaml
var Files embed.FS
