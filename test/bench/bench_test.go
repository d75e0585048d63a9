// Package bench measures the webhook from raw review bytes to response bytes, and rendering, each beside its limit in the same
// run: the metric x-limit is the ratio. The limit of a webhook call is encoding/json alone: decode the review, decode its
// object into the typed kind, and for a mutation encode it. The limit of rendering is marshalling the finished domain.
package bench

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/kilnvm/kiln/internal/admission"
	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/internal/revision"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/pipeline"
	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	v1 "kubevirt.io/api/core/v1"
)

// input reads a benchmark input. Users do not have them.
func input(b *testing.B, name string) []byte {
	b.Helper()
	dir := os.Getenv("KILN_SHARED")
	if dir == "" {
		dir = "../../../shared"
	}
	raw, err := os.ReadFile(filepath.Join(dir, "bench", name))
	if err != nil {
		b.Skip("no benchmark inputs here: set KILN_SHARED to a folder with bench/")
	}
	return raw
}

func server(b *testing.B) *admission.Server {
	b.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1.AddToScheme, appsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			b.Fatal(err)
		}
	}
	return &admission.Server{
		Resolver: resolve.Resolver{Cached: resolve.NewFiles(scheme)}, Cluster: config.Default,
		Write: func(context.Context, ...revision.Draft) error { return nil },
	}
}

// beside reports the time of an operation as a multiple of its limit's, measured in the same run.
func beside(b *testing.B, work, limit func()) {
	b.ReportAllocs()
	for b.Loop() {
		work()
	}
	took := b.Elapsed() / time.Duration(b.N)
	rounds := max(b.N, 200)
	start := time.Now()
	for range rounds {
		limit()
	}
	b.ReportMetric(float64(took)/(float64(time.Since(start))/float64(rounds)), "x-limit")
}

func benchmarkHook(b *testing.B, path, file string, rest func(*v1.VirtualMachineInstance) error) {
	raw := input(b, file)
	hook := server(b).Hooks()[path]
	work := func() {
		response, err := hook.Answer(b.Context(), raw)
		if err != nil || len(response) == 0 {
			b.Fatal(err)
		}
	}
	beside(b, work, func() {
		var review admissionv1.AdmissionReview
		var vmi v1.VirtualMachineInstance
		if json.Unmarshal(raw, &review) != nil || json.Unmarshal(review.Request.Object.Raw, &vmi) != nil {
			b.Fatal("the input cannot be read")
		}
		if err := rest(&vmi); err != nil {
			b.Fatal(err)
		}
	})
}

// encoded and decoded are what a limit does with the decoded object: a mutation has to write it, a validation nothing.
func encoded(vmi *v1.VirtualMachineInstance) error {
	_, err := json.Marshal(vmi)
	return err
}

func decoded(*v1.VirtualMachineInstance) error { return nil }

func BenchmarkMutateVMI(b *testing.B) {
	b.Run("mid", func(b *testing.B) { benchmarkHook(b, admission.MutateVMI, "review-vmi-mid.json", encoded) })
	b.Run("large", func(b *testing.B) { benchmarkHook(b, admission.MutateVMI, "review-vmi-large.json", encoded) })
}

func BenchmarkValidateVMI(b *testing.B) {
	b.Run("mid", func(b *testing.B) { benchmarkHook(b, admission.ValidateVMI, "review-vmi-mid.json", decoded) })
	b.Run("large", func(b *testing.B) { benchmarkHook(b, admission.ValidateVMI, "review-vmi-large.json", decoded) })
}

// Stages 2 and 3 and marshalling, of the explicit VMI.
func benchmarkRender(b *testing.B, file string) {
	vmi := &v1.VirtualMachineInstance{}
	if err := json.Unmarshal(input(b, file), vmi); err != nil {
		b.Fatal(err)
	}
	explicit, verdict := pipeline.ExplicitVMI(vmi, pipeline.Input{Cluster: config.Default()})
	if !verdict.Allowed() {
		b.Fatal(verdict.Errors.ToAggregate())
	}
	pipeline.Identify(explicit, "bench")
	machine := pipeline.Machine{
		VMI: explicit, Defaults: config.Default().Frontend,
		Host: backend.Assumed(explicit.Spec.Architecture), Bindings: backend.AssumedBindings(explicit),
	}
	rendered, errs := pipeline.Render(machine)
	if len(errs) > 0 {
		b.Fatal(errs.ToAggregate())
	}
	work := func() {
		again, errs := pipeline.Render(machine)
		if len(errs) > 0 {
			b.Fatal(errs.ToAggregate())
		}
		if _, err := again.Documents.Domain.Marshal(); err != nil {
			b.Fatal(err)
		}
	}
	beside(b, work, func() {
		if _, err := rendered.Documents.Domain.Marshal(); err != nil {
			b.Fatal(err)
		}
	})
}

func BenchmarkRender(b *testing.B) {
	b.Run("mid", func(b *testing.B) { benchmarkRender(b, "vmi-mid.json") })
	b.Run("large", func(b *testing.B) { benchmarkRender(b, "vmi-large.json") })
}
