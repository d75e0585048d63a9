package subresource

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/emicklei/go-restful/v3"
	"github.com/go-logr/logr/funcr"
	"github.com/kilnvm/kiln/internal/review"
	ctrl "sigs.k8s.io/controller-runtime"
)

// TestFailuresNameTheirObject: an entry about a request that failed has the keys namespace and name.
func TestFailuresNameTheirObject(t *testing.T) {
	var lines []string
	logger := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
	broken := route{resource: machines, name: "start", verb: http.MethodPut,
		do: func(_ *API, ctx context.Context, _ call) (reply, error) {
			ctrl.LoggerFrom(ctx).Info("on the way")
			return reply{}, errors.New("broken")
		}}
	request := restful.NewRequest(httptest.NewRequest(http.MethodPut, "/start", strings.NewReader("")).
		WithContext(ctrl.LoggerInto(t.Context(), logger)))
	request.PathParameters()["namespace"], request.PathParameters()["name"] = "team", "web"
	answer := httptest.NewRecorder()
	New(nil, review.Reviewer{}, nil).handleRoute(broken)(request, restful.NewResponse(answer))
	if answer.Code != http.StatusInternalServerError || len(lines) != 2 {
		t.Fatalf("%d: %q", answer.Code, lines)
	}
	for _, line := range lines {
		if !strings.Contains(line, `"namespace"="team" "name"="web"`) {
			t.Errorf("no object in '%s'", line)
		}
	}
}
