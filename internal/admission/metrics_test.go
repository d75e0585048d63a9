package admission

import (
	"bytes"
	"context"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	admissionv1 "k8s.io/api/admission/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// observations returns how many observations a path and an outcome have.
func observations(t *testing.T, path string, of outcome) uint64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(Metrics()...)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			labels := map[string]string{}
			for _, label := range metric.GetLabel() {
				labels[label.GetName()] = label.GetValue()
			}
			if labels["path"] == path && labels["outcome"] == string(of) {
				return metric.GetHistogram().GetSampleCount()
			}
		}
	}
	if slices.Contains(alerted, of) {
		t.Fatalf("no series of %s, %s: an alert would not see the first", path, of)
	}
	return 0
}

// TestOutcomes: each review is measured once, as what came of it.
func TestOutcomes(t *testing.T) {
	hook := newCluster(t, catalog).Hooks()[MutateVM]
	wrong := strings.Replace(sparse, "Always", "Sometimes", 1)
	full := hook
	full.capacity = newCapacity()
	if !full.capacity.TryAcquire(maxInFlight) {
		t.Fatal("no capacity")
	}
	broken := hook
	broken.handle = func(context.Context, *admissionv1.AdmissionRequest) (answer, error) { panic("bug") }
	for _, test := range []struct {
		of   outcome
		hook Hook
		url  string
		body []byte
	}{
		{allowed, hook, "/", marshalled(t, create(t, sparse))},
		{denied, hook, "/", marshalled(t, create(t, wrong))},
		{busy, full, "/?timeout=10ms", marshalled(t, create(t, sparse))},
		{failed, broken, "/", marshalled(t, create(t, sparse))},
		{failed, hook, "/", []byte("[]")},
		{failed, hook, "/", bytes.Repeat([]byte{'x'}, maxReview+1)},
	} {
		before := observations(t, MutateVM, test.of)
		test.hook.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, test.url, bytes.NewReader(test.body)))
		if after := observations(t, MutateVM, test.of); after != before+1 {
			t.Errorf("%s: %d observations, want %d: %.100s", test.of, after, before+1, test.body)
		}
	}
	if left := testutil.ToFloat64(inFlight); left != 0 {
		t.Errorf("%v bytes are in flight, and nothing is", left)
	}
}

// TestRejections: a refused request counts for each rule that it breaks, once.
func TestRejections(t *testing.T) {
	unreadable := create(t, sparse)
	unreadable.Object.Raw = []byte(`{"metadata":{"name":["web"]}}`)
	for rule, request := range map[string]*admissionv1.AdmissionRequest{
		"vm/strategy":        create(t, strings.Replace(sparse, "Always", "Sometimes", 1)),
		"request/unreadable": unreadable,
	} {
		before := testutil.ToFloat64(rejections.WithLabelValues(rule))
		ask(t, newCluster(t, catalog).Hooks()[ValidateVM], request)
		if after := testutil.ToFloat64(rejections.WithLabelValues(rule)); after != before+1 {
			t.Errorf("%s: %v, want %v", rule, after, before+1)
		}
	}
}

// TestRulesAreConstants: what is a label of a metric is written in the code. A rule made of a tenant's text would let tenants create series.
func TestRulesAreConstants(t *testing.T) {
	found := 0
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if rule := ruleIn(n); rule != nil {
				found++
				if foreign, is := rule.(*ast.SelectorExpr); is { // a constant of another package
					rule = foreign.Sel
				}
				_, literal := rule.(*ast.BasicLit)
				constant, named := rule.(*ast.Ident)
				if !literal && (!named || !strings.HasPrefix(strings.ToLower(constant.Name), "rule")) {
					t.Errorf("%s: the Origin of a mistake is no constant", path)
				}
			}
			return true
		})
		return nil
	})
	if err != nil || found < 100 {
		t.Errorf("%d rules found, %v: the test looks at the wrong tree", found, err)
	}
}

// ruleIn returns the rule that a node gives to a mistake, nil if it gives none.
func ruleIn(n ast.Node) ast.Expr {
	switch n := n.(type) {
	case *ast.CallExpr:
		if method, ok := n.Fun.(*ast.SelectorExpr); ok && method.Sel.Name == "WithOrigin" {
			return n.Args[0]
		}
	case *ast.KeyValueExpr:
		if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Origin" {
			if _, literal := n.Value.(*ast.BasicLit); literal {
				return n.Value
			}
		}
	}
	return nil
}

// TestLogEntries: an entry has the UID of its request and one line, whatever a tenant wrote; refusals are logged from the level of a flag on.
func TestLogEntries(t *testing.T) {
	hostile := "a\n{\"level\":\"ERROR\"}\u2028\x00" + strings.Repeat("b", 100)
	for _, test := range []struct {
		why      string
		from     slog.Level
		refusals int
		vm, want string
	}{
		{"allowed requests are for debugging", slog.LevelInfo, 0, sparse, ""},
		{"and then logged", slog.LevelDebug, 0, sparse, "request allowed"},
		{"refusals by the flag", slog.LevelInfo, 0, strings.Replace(sparse, "Always", "Sometimes", 1), "request refused"},
		{"or not", slog.LevelInfo, verbose, strings.Replace(sparse, "Always", "Sometimes", 1), ""},
	} {
		var lines bytes.Buffer
		logger := logr.FromSlogHandler(slog.NewJSONHandler(&lines, &slog.HandlerOptions{Level: test.from}))
		server := newCluster(t, catalog)
		server.Refusals = test.refusals
		request := create(t, test.vm)
		request.Name = hostile
		if _, err := server.Hooks()[MutateVM].Answer(log.IntoContext(t.Context(), logger), marshalled(t, request)); err != nil {
			t.Fatal(err)
		}
		if test.want == "" {
			if lines.Len() > 0 {
				t.Errorf("%s: %s", test.why, lines.String())
			}
			continue
		}
		var entry struct{ Msg, UID, Path, Name string }
		if err := json.Unmarshal(lines.Bytes(), &entry); err != nil || strings.Count(lines.String(), "\n") != 1 {
			t.Fatalf("%s: %v: %s", test.why, err, lines.String())
		}
		if entry.Msg != test.want || entry.UID != string(request.UID) || entry.Path != MutateVM || entry.Name != hostile {
			t.Errorf("%s: %s", test.why, lines.String())
		}
	}
}

// TestLogQuotesNoManifest: what a user wrote may be a password.
func TestLogQuotesNoManifest(t *testing.T) {
	var lines bytes.Buffer
	logger := logr.FromSlogHandler(slog.NewJSONHandler(&lines, nil))
	secret := strings.Replace(sparse, "Always", "S3CRET", 1)
	if _, err := newCluster(t, catalog).Hooks()[MutateVM].Answer(log.IntoContext(t.Context(), logger), marshalled(t, create(t, secret))); err != nil {
		t.Fatal(err)
	}
	if text := lines.String(); !strings.Contains(text, `"rules":["vm/strategy"]`) || strings.Contains(text, "S3CRET") {
		t.Error(text)
	}
}
