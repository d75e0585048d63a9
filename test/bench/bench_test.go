// Package bench measures the webhook from raw review bytes to response bytes, and rendering, each beside its limit in the same
// run: the metric x-limit is the ratio of times, x-allocs that of allocations. The limit of a webhook call is encoding/json alone: decode the review, decode its
// object into the typed kind, and for a mutation encode it. The limit of rendering is marshalling the finished domain.
package bench

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/kilnvm/kiln/internal/admission"
	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/internal/revision"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/validate"
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
	cluster := config.Default()
	return &admission.Server{
		Resolver: resolve.Resolver{Cached: resolve.NewFiles(scheme)}, Cluster: func() config.Cluster { return cluster },
		Write: func(context.Context, ...revision.Draft) error { return nil },
	}
}

// beside reports the time of an operation, and its allocations, as multiples of its limit's. The two take turns, and the
// median of the turns counts: on a machine that others use too, one long run beside another compares two different hours.
func beside(b *testing.B, work, limit func()) {
	b.ReportAllocs()
	for b.Loop() {
		work()
	}
	const turns, turn = 41, 4 * time.Millisecond
	rounds := max(1, int(turn/max(b.Elapsed()/time.Duration(b.N), 1)))
	ratios := make([]float64, turns)
	for i := range ratios {
		ratios[i] = float64(clocked(rounds, work)) / float64(clocked(rounds, limit))
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[turns/2], "x-limit")
	b.ReportMetric(testing.AllocsPerRun(20, work)/testing.AllocsPerRun(20, limit), "x-allocs")
}

func clocked(rounds int, work func()) time.Duration {
	start := time.Now()
	for range rounds {
		work()
	}
	return time.Since(start)
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
		if err := rest(read(b, raw)); err != nil {
			b.Fatal(err)
		}
	})
}

// read is the limit of every webhook call: the review, and the object in it.
func read(b *testing.B, raw []byte) *v1.VirtualMachineInstance {
	var review admissionv1.AdmissionReview
	var vmi v1.VirtualMachineInstance
	if json.Unmarshal(raw, &review) != nil || json.Unmarshal(review.Request.Object.Raw, &vmi) != nil {
		b.Fatal("the input cannot be read")
	}
	return &vmi
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

// The rules alone, beside the limit of the call that they are a part of.
func BenchmarkRules(b *testing.B) {
	for _, size := range []string{"mid", "large"} {
		b.Run(size, func(b *testing.B) {
			raw := input(b, "review-vmi-"+size+".json")
			vmi, limits := read(b, raw), config.Default().Limits
			beside(b, func() { validate.Guest(vmi, limits, nil) }, func() { read(b, raw) })
		})
	}
}
