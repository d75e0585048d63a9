package subresource

import (
	"context"
	"fmt"
	"strings"

	"github.com/kilnvm/kiln/internal/version"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// buildInfo has the fields of a server's version that 'virtctl version' reads.
type buildInfo struct {
	GitVersion string `json:"gitVersion"`
	GitCommit  string `json:"gitCommit"`
	BuildDate  string `json:"buildDate"`
	GoVersion  string `json:"goVersion"`
	Compiler   string `json:"compiler"`
	Platform   string `json:"platform"`
}

func (a *API) serveVersion(context.Context, call) (reply, error) {
	info := version.Read()
	return objectReply(buildInfo{
		GitVersion: kubeVirtVersion + "+kiln." + buildMetadata(info.Version), GitCommit: info.Revision, BuildDate: info.Time, GoVersion: info.Go, Compiler: "gc",
		Platform: info.Platform,
	}), nil
}

// kubeVirtVersion is the version of KubeVirt whose API this server serves. virtctl compares it with its own version, and warns if they differ.
const kubeVirtVersion = "v1.9.0"

// buildMetadata returns a text as the build metadata of a semantic version: other characters than letters, digits and hyphens become hyphens.
func buildMetadata(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, text)
}

// checkHealth answers as KubeVirt does, whose clients read 'apiserver.connectivity'.
func (a *API) checkHealth(ctx context.Context, _ call) (reply, error) {
	namespace := &corev1.Namespace{}
	if err := a.Live.Get(ctx, types.NamespacedName{Name: "kube-system"}, namespace); err != nil {
		return reply{}, apierrors.NewServiceUnavailable("Kubernetes' API server does not answer: " + err.Error())
	}
	return objectReply(map[string]any{"apiserver": map[string]any{"connectivity": "ok"}}), nil
}

// requireUpdate wraps a GET that changes an object. Kubernetes authorizes it by the verb get, which a reader may have, so requireUpdate requires the verb
// update as well.
func requireUpdate(subresource string, do func(*API, context.Context, call) (reply, error)) func(*API, context.Context, call) (reply, error) {
	return func(a *API, ctx context.Context, c call) (reply, error) {
		caller, known := request.UserFrom(ctx)
		if !known {
			return reply{}, fmt.Errorf("the request has no user")
		}
		decision, reason, err := a.Authorizer.Authorize(ctx, authorizer.AttributesRecord{
			User: caller, Verb: "update", Namespace: c.namespace, APIGroup: Group, APIVersion: Versions[0].Version,
			Resource: machines, Subresource: subresource, Name: c.name, ResourceRequest: true,
		})
		if err != nil {
			return reply{}, err
		}
		if decision != authorizer.DecisionAllow {
			return reply{}, apierrors.NewForbidden(Versions[0].WithResource(machines+"/"+subresource).GroupResource(), c.name,
				fmt.Errorf("user %q cannot update it in namespace %q, which a GET of it needs %s", caller.GetName(), c.namespace, reason))
		}
		return do(a, ctx, c)
	}
}
