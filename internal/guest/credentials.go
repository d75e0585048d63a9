package guest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/guestagent"
	"github.com/kilnvm/kiln/internal/hostresources"
	"github.com/kilnvm/kiln/internal/hypervisor"
	ctrl "sigs.k8s.io/controller-runtime"
)

const (
	// credentialInterval is the time after which unchanged credentials are given again, as in KubeVirt: somebody may have changed them in the guest.
	credentialInterval = 5 * time.Minute
	// credentialLimit bounds an attempt to give all credentials, because a VMI may name thousands of users.
	credentialLimit = time.Minute
)

// credentialSync gives the accessCredentials of one guest to its agent.
type credentialSync struct {
	*Guest
	run startedGuest
	// given are the credentials that the agent has taken at the time at. It is zero if the agent has not taken all of them.
	given hostresources.Credentials
	at    time.Time
}

// giveIfChanged reads the credentials, and gives them to the agent if they have changed or credentialInterval is over. answers reports whether the agent
// answers.
func (s *credentialSync) giveIfChanged(ctx context.Context, answers bool) {
	if s.run.credentials == nil {
		return
	}
	if !answers {
		s.reportResult(ctx, errors.New("the guest agent does not answer"))
		return
	}
	wanted, err := s.run.credentials()
	if err == nil && reflect.DeepEqual(wanted, s.given) && time.Since(s.at) < credentialInterval {
		return
	}
	if err == nil {
		err = giveCredentials(ctx, s.Agent, s.run.owner, wanted)
	}
	s.reportResult(ctx, err)
	if err == nil {
		s.given, s.at = wanted, time.Now()
	}
}

// reportResult reports the result of an attempt. After a failure the credentials are given again.
func (s *credentialSync) reportResult(ctx context.Context, err error) {
	result := &v1alpha1.GuestCredentials{}
	if err != nil {
		s.given = hostresources.Credentials{}
		result.Failure = guestagent.Text(err.Error(), v1alpha1.LongestCredentialFailure)
		ctrl.LoggerFrom(ctx).V(1).Info("accessCredentials do not reach the guest", "reason", result.Failure)
	}
	s.Channel.Report(func(status *v1alpha1.GuestPodStatus) {
		if ctx.Err() == nil { // else the guest has ended
			status.Credentials = result
		}
	})
}

// giveCredentials gives all credentials to the agent. The error names each user whose credentials did not reach the guest.
func giveCredentials(ctx context.Context, agent Agent, owner hypervisor.Owner, all hostresources.Credentials) error {
	ctx, cancel := context.WithTimeout(ctx, credentialLimit)
	defer cancel()
	var failed []string
	note := func(what, user string, err error) {
		if err != nil {
			failed = append(failed, fmt.Sprintf("%s of user '%s': %v", what, user, err))
		}
	}
	for _, user := range slices.Sorted(maps.Keys(all.Keys)) {
		note("SSH keys", user, agent.SetAuthorizedKeys(ctx, owner, user, all.Keys[user]))
	}
	for _, user := range slices.Sorted(maps.Keys(all.Passwords)) {
		note("password", user, agent.SetPassword(ctx, owner, user, all.Passwords[user]))
	}
	if len(failed) > 0 {
		return errors.New(strings.Join(failed, "; "))
	}
	return nil
}
