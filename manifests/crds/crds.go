// Package crds holds the definitions of the kinds that Kiln serves, as a cluster gets them, for those who judge a manifest
// without a cluster.
package crds

import "embed"

// Files are one YAML file a kind, named by its plural in lower case.
//
//go:embed virtualmachine*.yaml hostprofiles/hostprofiles.yaml guesthardwares/guesthardwares.yaml
var Files embed.FS
