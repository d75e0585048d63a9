package clusterconfig

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/config"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// A changed file counts, a broken one does not, and is told once.
func TestConfigurationOfAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kubevirt.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("cpuModle: Nehalem")
	c := &Watcher{File: file, Log: logr.Discard()}
	if err := c.Load(t.Context()); err == nil || !strings.Contains(err.Error(), "cpuModle") || !strings.Contains(err.Error(), file) {
		t.Errorf("a wrong file at the start: %v, want file and field", err)
	}
	for _, step := range []struct{ text, model string }{
		{"cpuModel: Nehalem", "Nehalem"},
		{"cpuModel: Haswell", "Haswell"},
		{"evictionStrategy: Maybe", "Haswell"},
		{"cpuModel: Opteron_G3", "Opteron_G3"},
	} {
		write(step.text)
		err := c.Load(t.Context())
		if wrong := strings.Contains(step.text, "Maybe"); (err != nil) != wrong {
			t.Errorf("'%s': %v", step.text, err)
		}
		if got := c.Now().Defaults.CPUModel; got != step.model {
			t.Errorf("after '%s' the model is '%s', want '%s'", step.text, got, step.model)
		}
		if err := c.Load(t.Context()); err != nil {
			t.Errorf("'%s' is told again: %v", step.text, err)
		}
	}
}

// The KubeVirt object is followed as soon as the cluster serves the kind, and not before.
func TestConfigurationOfAnObject(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{v1.GroupVersion})
	informers := &informertest.FakeInformers{Scheme: scheme}
	objects := fake.NewClientBuilder().WithScheme(scheme).Build()
	c := &Watcher{Cache: listing{informers, objects}, Mapper: mapper, Log: logr.Discard()}
	check := func(why, model string) {
		t.Helper()
		if err := c.Load(t.Context()); err != nil {
			t.Fatalf("%s: %v", why, err)
		}
		c.readObjects(t.Context())
		if got := c.Now().Defaults.CPUModel; got != model {
			t.Errorf("%s: model '%s', want '%s'", why, got, model)
		}
	}
	if err := c.Load(t.Context()); err != nil || !c.Synced() || c.objects.Load() != nil {
		t.Errorf("a cluster without the kind: %v, watched %v", err, c.objects.Load() != nil)
	}
	mapper.Add(v1.KubeVirtGroupVersionKind, meta.RESTScopeNamespace)
	check("no object", "host-model")
	if c.objects.Load() == nil {
		t.Error("the kind is served, and nothing watches it")
	}
	object := &v1.KubeVirt{ObjectMeta: metav1.ObjectMeta{Namespace: "kubevirt", Name: "kubevirt"}}
	object.Spec.Configuration.CPUModel = "Nehalem"
	if err := objects.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	check("an object", "Nehalem")
	maybe := v1.EvictionStrategy("Maybe")
	object.Spec.Configuration.CPUModel, object.Spec.Configuration.EvictionStrategy = "Haswell", &maybe
	if err := objects.Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	check("a wrong object changes nothing", "Nehalem")
	if err := objects.Delete(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	check("the object is gone", "host-model")
}

// TestFrontendProfileInForce: the highest version is a part of the configuration, of a file and of an object, and is gone with its object.
func TestFrontendProfileInForce(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := errors.Join(v1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "kubevirt.yaml")
	if err := os.WriteFile(file, []byte("smbios: {sku: S}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, source := range []string{"", file} {
		mapper := meta.NewDefaultRESTMapper(nil)
		objects := fake.NewClientBuilder().WithScheme(scheme).Build()
		cache := listing{&informertest.FakeInformers{Scheme: scheme}, objects}
		c := &Watcher{File: source, FrontendProfiles: true, Cache: cache, Mapper: mapper, Log: logr.Discard()}
		check := func(why, version, sku string) {
			t.Helper()
			if err := c.Load(t.Context()); err != nil {
				t.Fatalf("%s: %v", why, err)
			}
			c.readProfiles(t.Context())
			if got := c.Now().FrontendDefaults(); got.Version != version || got.SMBIOS.SKU != sku || c.Now().Defaults.CPUModel != "host-model" {
				t.Errorf("%s, source '%s': %+v, want version '%s'", why, source, got, version)
			}
		}
		own := map[string]string{file: "S"}[source]
		check("the kind is not served", config.Default().Frontend.Version, own)
		if c.profiles.Load() != nil {
			t.Error("it is watched")
		}
		mapper.Add(v1alpha1.GroupVersion.WithKind(v1alpha1.KindFrontendProfile), meta.RESTScopeRoot)
		check("no profile", config.Default().Frontend.Version, own)
		if c.profiles.Load() == nil {
			t.Error("the kind is served, and nothing watches it")
		}
		for _, name := range []string{"v2", "v10"} {
			profile := &v1alpha1.FrontendProfile{ObjectMeta: metav1.ObjectMeta{Name: name}}
			profile.Spec.SMBIOS = &v1alpha1.FrontendSMBIOS{SKU: name}
			if err := objects.Create(t.Context(), profile); err != nil {
				t.Fatal(err)
			}
			check("a higher version", name, name)
		}
		if err := objects.Delete(t.Context(), &v1alpha1.FrontendProfile{ObjectMeta: metav1.ObjectMeta{Name: "v10"}}); err != nil {
			t.Fatal(err)
		}
		check("it is gone", "v2", "v2")
		launcher := &Watcher{File: file, Cache: cache, Mapper: mapper, Log: logr.Discard()}
		if launcher.Load(t.Context()) != nil || launcher.profiles.Load() != nil {
			t.Error("a launcher watches a kind that it may not read")
		}
	}
}

// listing is a cache whose objects a test writes.
type listing struct {
	*informertest.FakeInformers
	objects client.Reader
}

func (l listing) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	return l.objects.List(ctx, list, options...)
}

// TestBeside: who runs guests is asked again, and a look that fails changes nothing.
func TestBeside(t *testing.T) {
	var runs bool
	var failure error
	asked := 0
	w := &Watcher{Log: logr.Discard()}
	w.FollowKubeVirt(t.Context(), func(context.Context) (bool, error) { asked++; return runs, failure })
	for _, step := range []struct {
		why     string
		runs    bool
		failure error
		now     bool
	}{
		{"Kiln at first", false, nil, false},
		{"KubeVirt was installed", true, nil, true},
		{"the API server is away", false, errors.New("away"), true},
		{"KubeVirt was removed", false, nil, false},
	} {
		runs, failure = step.runs, step.failure
		w.checkKubeVirt(t.Context())
		if got := w.Now().Limits.KubeVirtGuests; got != step.now {
			t.Errorf("%s: KubeVirt runs guests: %t", step.why, got)
		}
	}
	if asked != 5 {
		t.Errorf("asked %d times", asked)
	}
	// Another configuration leaves the answer.
	runs = true
	w.checkKubeVirt(t.Context())
	w.putReading(Reading{Cluster: config.Cluster{Defaults: config.Defaults{CPUModel: "Nehalem"}}})
	if now := w.Now(); !now.Limits.KubeVirtGuests || now.Defaults.CPUModel != "Nehalem" {
		t.Errorf("got %t, %s", now.Limits.KubeVirtGuests, now.Defaults.CPUModel)
	}
}

// TestRuntimeIsInForceWhenItIsKnown: as long as it is not known whether KubeVirt runs the guests, nothing is refused because of Kiln's pods. A VM that only
// KubeVirt starts would be refused beside it otherwise, while a new replica cannot read KubeVirt's Deployment.
func TestRuntimeIsInForceWhenItIsKnown(t *testing.T) {
	t.Parallel()
	runs, failure := false, errors.New("away")
	w := &Watcher{Log: logr.Discard(), Runtime: config.RuntimePod, Mapper: meta.NewDefaultRESTMapper(nil)}
	w.FollowKubeVirt(t.Context(), func(context.Context) (bool, error) { return runs, failure })
	for _, step := range []struct {
		why     string
		runs    bool
		failure error
		pods    bool
	}{
		{"no answer yet", false, errors.New("away"), false},
		{"Kiln runs them", false, nil, true},
		{"the API server is away", false, errors.New("away"), true},
		{"KubeVirt was installed", true, nil, false},
	} {
		runs, failure = step.runs, step.failure
		w.checkKubeVirt(t.Context())
		if got := w.Now().Limits.RunsInPods(); got != step.pods {
			t.Errorf("%s: guests run in pods: %t", step.why, got)
		}
	}
}
