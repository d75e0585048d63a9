package command

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
)

// TestWhoReadsMetrics: an API server that knows one token, whose account may get /metrics.
func TestWhoReadsMetrics(t *testing.T) {
	for _, c := range []struct {
		why, header, path string
		down              error
		want              int
	}{
		{"the account of Prometheus", "Bearer known", "/metrics", nil, http.StatusOK},
		{"nobody", "", "/metrics", nil, http.StatusUnauthorized},
		{"no token", "Bearer ", "/metrics", nil, http.StatusUnauthorized},
		{"a password", "Basic known", "/metrics", nil, http.StatusUnauthorized},
		{"an unknown token", "Bearer unknown", "/metrics", nil, http.StatusUnauthorized},
		{"another path", "Bearer known", "/debug", nil, http.StatusForbidden},
		{"the API server is away", "Bearer known", "/metrics", errors.New("away"), http.StatusInternalServerError},
	} {
		r := httptest.NewRequest(http.MethodGet, c.path, nil)
		r.Header.Set("Authorization", c.header)
		got, err := newReaders(knowing(c.down)).statusOf(r)
		if got != c.want || (err != nil) != (c.down != nil) {
			t.Errorf("%s: status %d, error %v, want %d", c.why, got, err, c.want)
		}
	}
}

// TestReadersAreBounded: tokens that nobody knows cost the API server a few reviews, and do not shut out Prometheus.
func TestReadersAreBounded(t *testing.T) {
	cluster := knowing(nil)
	who := newReaders(cluster)
	status := func(token string) int {
		r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		got, err := who.statusOf(r)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := status("known"); got != http.StatusOK {
		t.Fatalf("the account of Prometheus: status %d", got)
	}
	refused := 0
	for i := range 1000 {
		switch got := status(fmt.Sprint("guess-", i)); got {
		case http.StatusTooManyRequests:
			refused++
		case http.StatusUnauthorized:
		default:
			t.Fatalf("a guess: status %d", got)
		}
	}
	reviews := tokenReviews(cluster)
	if refused+reviews != 1001 || refused < 500 {
		t.Errorf("of 1000 guesses, %d were refused without a review; %d reviews", refused, reviews)
	}
	who.now = func() time.Time { return time.Now().Add(fresh) }
	if got := status("known"); got != http.StatusOK {
		t.Errorf("the account of Prometheus, after the guesses: status %d", got)
	}
	if got := tokenReviews(cluster); got != reviews+1 {
		t.Errorf("%d reviews more, want only the review of Prometheus' account", got-reviews)
	}
	if status("known-elsewhere") == http.StatusOK {
		t.Error("another token is taken for the known one")
	}
}

// TestAccountsLoseTheirRight: who may not read any more is refused after a minute.
func TestAccountsLoseTheirRight(t *testing.T) {
	cluster := knowing(nil)
	who := newReaders(cluster)
	r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	r.Header.Set("Authorization", "Bearer known")
	want := func(why string, want int) {
		t.Helper()
		if got, err := who.statusOf(r); got != want || err != nil {
			t.Errorf("%s: status %d, error %v, want %d", why, got, err, want)
		}
	}
	want("at first", http.StatusOK)
	cluster.PrependReactor("create", "subjectaccessreviews", func(action k8stesting.Action) (bool, runtime.Object, error) {
		return true, action.(k8stesting.CreateAction).GetObject(), nil
	})
	want("within a minute", http.StatusOK)
	who.now = func() time.Time { return time.Now().Add(fresh) }
	want("after a minute", http.StatusForbidden)
	who.reviews.SetBurst(0)
	want("as one of many", http.StatusTooManyRequests)
}

func tokenReviews(cluster *fake.Clientset) (n int) {
	for _, action := range cluster.Actions() {
		if action.GetResource().Resource == "tokenreviews" {
			n++
		}
	}
	return n
}

// knowing answers as that API server, or with an error.
func knowing(down error) *fake.Clientset {
	cluster := fake.NewClientset()
	cluster.PrependReactor("create", "tokenreviews", func(action k8stesting.Action) (bool, runtime.Object, error) {
		review := action.(k8stesting.CreateAction).GetObject().(*authenticationv1.TokenReview)
		review.Status.Authenticated = review.Spec.Token == "known"
		review.Status.User.Username = "prometheus"
		return true, review, down
	})
	cluster.PrependReactor("create", "subjectaccessreviews", func(action k8stesting.Action) (bool, runtime.Object, error) {
		review := action.(k8stesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview)
		asked := review.Spec.NonResourceAttributes
		review.Status.Allowed = review.Spec.User == "prometheus" && asked.Path == "/metrics" && asked.Verb == "get"
		return true, review, nil
	})
	return cluster
}
