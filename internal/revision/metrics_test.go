package revision

import (
	"context"
	"errors"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// full is an API server whose etcd is full.
type full struct{ client.Client }

func (full) Create(context.Context, client.Object, ...client.CreateOption) error {
	return errors.New("etcdserver: mvcc: database space exceeded")
}

// TestWritesAreCounted by what came of them: the second VM of an instancetype shares the revision of the first.
func TestWritesAreCounted(t *testing.T) {
	d, c := draft(t, "s", "1Gi"), server(t)
	for _, step := range []struct {
		result string
		to     client.Client
	}{{resultCreated, c}, {resultShared, c}, {resultFailed, full{c}}} {
		before := testutil.ToFloat64(writesTotal.WithLabelValues(step.result))
		if err := Write(t.Context(), step.to, d); (err != nil) != (step.result == resultFailed) {
			t.Fatalf("%s: %v", step.result, err)
		}
		if after := testutil.ToFloat64(writesTotal.WithLabelValues(step.result)); after != before+1 {
			t.Errorf("%s: %v, want %v", step.result, after, before+1)
		}
	}
}
