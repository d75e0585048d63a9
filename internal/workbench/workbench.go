// Package workbench runs Kiln's pipeline for a user: it reviews objects as the webhook does, renders them as a launcher does, and explains them. It returns
// values with their warnings, and prints nothing. Its subpackages read the objects, and compare, audit and publish the objects that it has reviewed.
package workbench

import (
	"context"
	"io"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/clusterconfig"
	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/policy"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Bench is one run of a command. It reads the settings of a cluster once, so that all answers of a run depend on the same settings.
type Bench struct {
	// Config is a file with the cluster's KubeVirt configuration. If it is empty, the configuration is among the objects or in the cluster.
	Config string
	// Profiles are files of HostProfiles. Without files, the HostProfiles are among the objects or in the cluster.
	Profiles []string
	// Policies are files of GuestPolicies, which are added to the GuestPolicies among the objects or in the cluster.
	Policies []string
	// Carriers are the values of --carrier: kinds with templates of VMs or VMIs, besides the kinds that Kiln knows.
	Carriers []string
	// User is the account that would send the objects to the API server. GuestPolicies may depend on it.
	User authenticationv1.UserInfo
	// Runtime is the value of --runtime: who runs guests. Empty means RuntimeAuto.
	Runtime string
	// KubeVirtVersion is the value of --kubevirt-version. 0 stands for the version in the status of the KubeVirt object.
	KubeVirtVersion config.Version
	// Strict refuses references to objects that do not exist, and kinds that Kiln does not serve. Otherwise they are warnings.
	Strict bool
	// Quiet leaves out the warnings about settings that the user may not read. Commands about objects of the cluster would repeat them at every call.
	Quiet bool
	// Now returns the time by which instancetypes become obsolete and GuestPolicyExceptions end; nil for the clock of this machine.
	Now func() time.Time
	// Stdin is read for a file that is named '-'.
	Stdin io.Reader

	configuration *clusterconfig.Reading
	kubevirt      *bool
	frontends     *[]v1alpha1.FrontendProfile
	profiles      *[]v1alpha1.HostProfile
	policies      *[]*policy.Policy
	// PoliciesForbidden reports that the user may not list the GuestPolicies of the cluster.
	PoliciesForbidden bool
	// tried are the names of the policies in the files of Policies.
	tried []string
	// Undocumented leaves out the documents of guests, which only printing and text diffs need: they take a quarter of the time of a review.
	Undocumented bool
	// memo caches decoded objects between the reviews of a bench with fixed settings; nil for none.
	memo *resolve.Memo
	// unrecorded means that the hardware of earlier boots is not read.
	unrecorded bool
	// oldCarrier is a stored object with templates of VMs: an object is reviewed as its update; nil for a create.
	oldCarrier *unstructured.Unstructured
	// updates means that a VM is reviewed as an update that changes nothing of it.
	updates bool
}

// now returns the current time.
func (b *Bench) now() time.Time {
	if b.Now == nil {
		return time.Now()
	}
	return b.Now()
}

// ReadSettings reads the configuration and the HostProfiles of a cluster, and uses them for all later answers, also for objects of files. The
// warnings name the settings that the user may not read.
func (b *Bench) ReadSettings(ctx context.Context, cluster manifest.Inputs) ([]string, error) {
	_, warnings, err := b.Configuration(ctx, cluster)
	if err != nil {
		return warnings, err
	}
	_, more, err := b.hostProfiles(ctx, cluster)
	return append(warnings, more...), err
}

// IgnoreProfiles makes the bench read no HostProfiles. They set nothing that a guest sees.
func (b *Bench) IgnoreProfiles() { b.profiles = &[]v1alpha1.HostProfile{} }
