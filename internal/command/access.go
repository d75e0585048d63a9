package command

import (
	"context"
	"crypto/sha256"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/kilnvm/kiln/internal/authorization"
	"golang.org/x/time/rate"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const (
	// reviewsPerSecond and reviewBurst limit the requests to the API server that clients with arbitrary tokens can cause.
	reviewsPerSecond = 5
	reviewBurst      = 20
	// fresh is how long the answer that an account may read a path is used. Kubernetes' own components use the same time.
	fresh = time.Minute
	// remembered is how long such an account is exempt from the limit: as long as kubelet's tokens live.
	remembered = time.Hour
)

// readers decides which accounts may read a path of this process.
type readers struct {
	cluster kubernetes.Interface
	reviews *rate.Limiter
	// known has, by the digest of token and path, the time of the last review that allowed it. An account in it is exempt from the limit, so a flood of other
	// tokens does not shut out Prometheus.
	known *cache.Expiring
	now   func() time.Time
}

// newReaderFilter returns a filter that admits the accounts of the cluster that may get the path of a request: it asks the API server which account has the
// token, and whether this account may get the path. controller-runtime's filter does the same with k8s.io/apiserver, which would link gRPC and the
// exporters of OpenTelemetry into each process.
func newReaderFilter(access *rest.Config, client *http.Client) (server.Filter, error) {
	cluster, err := kubernetes.NewForConfigAndClient(access, client)
	if err != nil {
		return nil, err
	}
	who := newReaders(cluster)
	return func(log logr.Logger, next http.Handler) (http.Handler, error) {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			status, err := who.statusOf(r)
			if err != nil {
				log.Error(err, "asking the API server who may read metrics")
			}
			if status != http.StatusOK {
				http.Error(w, http.StatusText(status), status)
				return
			}
			next.ServeHTTP(w, r)
		}), nil
	}, nil
}

func newReaders(cluster kubernetes.Interface) *readers {
	return &readers{cluster: cluster, reviews: rate.NewLimiter(reviewsPerSecond, reviewBurst), known: cache.NewExpiring(), now: time.Now}
}

// statusOf returns an HTTP status: 200 if the account may read the path, 401 for no or an unknown token, 403 for an account without the right, 429 if there
// are too many requests, and 500 with an error.
func (a *readers) statusOf(r *http.Request) (int, error) {
	token, bears := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !bears || token == "" {
		return http.StatusUnauthorized, nil
	}
	key := sha256.Sum256([]byte(token + " " + r.URL.Path))
	last, known := a.known.Get(key)
	switch {
	case known && a.now().Sub(last.(time.Time)) < fresh:
		return http.StatusOK, nil
	case !known && !a.reviews.Allow():
		return http.StatusTooManyRequests, nil
	}
	status, err := a.reviewToken(r, token)
	switch {
	case status == http.StatusOK:
		a.known.Set(key, a.now(), remembered)
	case err == nil:
		a.known.Delete(key)
	}
	return status, err
}

// reviewToken asks the API server, and returns the status as statusOf does.
func (a *readers) reviewToken(r *http.Request, token string) (int, error) {
	reviewed, err := a.cluster.AuthenticationV1().TokenReviews().Create(r.Context(),
		&authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil {
		return http.StatusInternalServerError, err
	}
	if !reviewed.Status.Authenticated {
		return http.StatusUnauthorized, nil
	}
	allowed, err := mayGet(r.Context(), a.cluster, reviewed.Status.User, r.URL.Path)
	switch {
	case err != nil:
		return http.StatusInternalServerError, err
	case !allowed:
		return http.StatusForbidden, nil
	}
	return http.StatusOK, nil
}

// mayGet asks the API server whether a user may get a path that belongs to no resource.
func mayGet(ctx context.Context, cluster kubernetes.Interface, user authenticationv1.UserInfo, path string) (bool, error) {
	review := authorization.ReviewFor(user)
	review.Spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Path: path, Verb: "get"}
	answered, err := cluster.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	return answered.Status.Allowed, nil
}
