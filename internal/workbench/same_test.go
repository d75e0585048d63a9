package workbench

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/internal/admission"
	"github.com/kilnvm/kiln/internal/kubevirt/virtcontroller"
	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/internal/review"
	"github.com/kilnvm/kiln/internal/revision"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/policy"
	"github.com/kilnvm/kiln/test/samples"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// webhooks are the paths that an API server calls on create, in its order.
var webhooks = map[string][]string{
	"VirtualMachine":                    {admission.MutateVM, admission.ValidateVM},
	"VirtualMachineInstance":            {admission.MutateVMI, admission.ValidateVMI},
	"VirtualMachineInstancePreset":      {admission.ValidatePreset},
	"VirtualMachineInstancetype":        {admission.ValidateInstancetype},
	"VirtualMachineClusterInstancetype": {admission.ValidateInstancetype},
	"VirtualMachinePreference":          {admission.ValidatePreference},
	"VirtualMachineClusterPreference":   {admission.ValidatePreference},
	"GuestHardware":                     {admission.ValidateHardware},
	"GuestProfile":                      {admission.ValidateProfile},
	"ClusterGuestProfile":               {admission.ValidateProfile},
	"VirtualMachinePool":                {admission.ValidateCarrier},
	"VirtualMachineInstanceReplicaSet":  {admission.ValidateCarrier},
	"VirtualMachineTemplate":            {admission.ValidateCarrier},
	"KubevirtMachineTemplate":           {admission.ValidateCarrier},
	"KubevirtMachine":                   {admission.ValidateCarrier},
}

// TestSameVerdictAsTheWebhook: what 'validate' says of a file, the webhook's handlers say of the same object.
func TestSameVerdictAsTheWebhook(t *testing.T) {
	t.Parallel()
	compared, refused := 0, 0
	for _, set := range [][]string{corpusFiles(t), exampleFiles(t)} {
		for _, file := range set {
			t.Run(filepath.Base(filepath.Dir(file))+"/"+filepath.Base(file), func(t *testing.T) {
				all, refusedHere := sameVerdict(t, &Bench{}, file)
				compared, refused = compared+all, refused+refusedHere
			})
		}
	}
	t.Logf("%d objects compared, %d of them refused", compared, refused)
	if compared < 100 || refused < 10 {
		t.Errorf("%d objects compared, %d of them refused: the test looks at the wrong folders", compared, refused)
	}
}

// corpusFiles are the inputs of the corpus; what a case has in its cluster lies beside them.
func corpusFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("../../test/corpus/*/vm*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no corpus: %v", err)
	}
	return files
}

// exampleFiles are our own and, where they are, the published ones.
func exampleFiles(t *testing.T) (files []string) {
	t.Helper()
	for _, set := range samples.Sets(t) {
		files = append(files, set.Examples(t)...)
	}
	return files
}

// sameVerdict compares the verdicts on each object of a file and counts the objects. Objects of the files more are in the cluster.
func sameVerdict(t *testing.T, bench *Bench, file string, more ...string) (compared, refused int) {
	t.Helper()
	files := manifest.Files{Names: []string{file}}
	cluster := filepath.Join(filepath.Dir(file), "cluster.yaml")
	if _, err := os.Stat(cluster); err == nil {
		files.Catalog = []string{cluster}
	} else if strings.HasSuffix(filepath.Dir(file), "examples") {
		files.Catalog = []string{filepath.Dir(file)} // instancetypes and preferences have files of their own
	}
	files.Catalog = append(files.Catalog, more...)
	in, err := manifest.Load(files)
	if err != nil {
		t.Fatal(err)
	}
	all, err := bench.Review(t.Context(), in, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range all.Objects {
		if r.Fault != nil {
			t.Error(r.Fault)
			continue
		}
		if len(r.Mistakes) > 0 {
			continue // an API server refuses it by its schema and asks no webhook
		}
		offline := r.Judgement()
		offline.Inferred = nil // an API server has no word for it
		for i := range offline.Causes {
			offline.Causes[i].File, offline.Causes[i].Line = "", 0
		}
		slices.Sort(offline.Warnings)
		offline.Warnings = slices.Compact(offline.Warnings)
		if diff := cmp.Diff(online(t, bench, r), offline); diff != "" {
			t.Errorf("%s (-webhook +validate):\n%s", r.Name(), diff)
		}
		compared++
		if !offline.Allowed {
			refused++
		}
	}
	return compared, refused
}

// online is what an API server tells its client after it has called the webhooks, one after the other.
func online(t *testing.T, bench *Bench, r Reviewed) Judgement {
	t.Helper()
	now, _, err := bench.Configuration(t.Context(), r.Inputs)
	if err != nil {
		t.Fatal(err)
	}
	policies, _, err := bench.GuestPolicies(t.Context(), r.Inputs)
	if err != nil {
		t.Fatal(err)
	}
	server := &admission.Server{
		Reviewer: review.Reviewer{Resolver: resolve.Resolver{Cached: r.Inputs.Reader, OfFiles: true}, Configuration: func() config.Cluster { return now.Cluster },
			KubeVirt: virtcontroller.Completer{},
			Policies: func() ([]*policy.Policy, error) { return policies, nil }},
		Write: func(context.Context, ...revision.Draft) error { return nil },
		// A user who has files may read all of their objects.
		MayRead: func(context.Context, authenticationv1.UserInfo, resolve.Source) (bool, error) { return true, nil },
	}
	raw, err := r.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	answer := Judgement{Object: r.Name(), File: r.File(), Allowed: true, Causes: []Cause{}, Warnings: []string{}}
	for _, path := range webhooks[r.GetKind()] {
		response := send(t, server, path, r, raw)
		answer.Warnings = append(answer.Warnings, response.Warnings...)
		if !response.Allowed {
			answer.Allowed = false
			for _, c := range response.Result.Details.Causes {
				answer.Causes = append(answer.Causes, Cause{Type: string(c.Type), Field: c.Field, Message: c.Message})
			}
			break
		}
		if raw, err = applyPatch(response.Patch, raw); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(answer.Warnings)
	answer.Warnings = slices.Compact(answer.Warnings) // as the API server does
	return answer
}

func send(t *testing.T, server *admission.Server, path string, r Reviewed, raw []byte) *admissionv1.AdmissionResponse {
	t.Helper()
	body, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			Operation: admissionv1.Create, UserInfo: (&Bench{}).requestUser().User, Namespace: r.GetNamespace(), Name: r.GetName(), DryRun: new(true),
			Kind: metav1.GroupVersionKind(r.GroupVersionKind()), Object: runtime.RawExtension{Raw: raw},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	var answered admissionv1.AdmissionReview
	if body, err = server.Hooks()[path].Answer(t.Context(), body); err == nil {
		err = json.Unmarshal(body, &answered)
	}
	if err != nil {
		t.Fatal(err)
	}
	return answered.Response
}
