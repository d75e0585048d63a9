// Package workbench runs Kiln's pipeline for a person: it loads objects from files or takes those of a cluster, reviews them as the webhook does,
// renders them as a launcher does, and compares and explains them. All answers are values, with the warnings that belong to them: nothing is
// printed, so that a command line and a web page can be written over it.
package workbench

import (
	"context"
	"io"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/clusterconfig"
)

// Bench is one run over objects of one user. It reads the settings of a cluster once.
type Bench struct {
	// Config is a file with the cluster's KubeVirt configuration; empty for that of the objects or the cluster.
	Config string
	// Profiles are files of HostProfiles; none for those of the objects or the cluster.
	Profiles []string
	// Strict refuses references to what does not exist, and kinds that Kiln does not serve. They are warnings otherwise.
	Strict bool
	// Stdin is read where a file is named '-'.
	Stdin io.Reader

	configuration *clusterconfig.Reading
	profiles      *[]v1alpha1.HostProfile
}

// ReadSettings reads the configuration and the HostProfiles of a cluster, which then count for all later answers: a file is compared with an
// object of the cluster as what it is to become there. The warnings name what may not be read.
func (b *Bench) ReadSettings(ctx context.Context, cluster Inputs) ([]string, error) {
	_, warnings, err := b.Configuration(ctx, cluster)
	if err != nil {
		return warnings, err
	}
	_, more, err := b.hostProfiles(ctx, cluster)
	return append(warnings, more...), err
}

// IgnoreProfiles makes the bench read no HostProfiles: nothing that they set is seen by a guest.
func (b *Bench) IgnoreProfiles() { b.profiles = &[]v1alpha1.HostProfile{} }
