package e2e

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/kilnvm/kiln/test/cluster"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// A test reads and creates objects by a client (cluster.Get, cluster.CreateIn), because a run of kubectl takes 80 ms of CPU time. A test runs kubectl where it
// checks what kubectl prints, or what another user may do.

// create creates the objects of a manifest. One that is refused fails the test.
func (s space) create(manifest string) {
	s.Helper()
	ctx, cancel := s.limit()
	defer cancel()
	for decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(manifest), 1<<20); ; {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		if errors.Is(err, io.EOF) {
			return
		}
		if err == nil {
			err = s.on.CreateIn(ctx, s.name, object)
		}
		if err != nil {
			s.Fatalf("%v\n%s", err, manifest)
		}
	}
}

func (s space) in(kind string) cluster.In { return cluster.In{Namespace: s.name, Kind: kind} }

// limit bounds one request.
func (s space) limit() (context.Context, context.CancelFunc) {
	return context.WithTimeout(s.Context(), 2*time.Minute)
}

// get reads one object.
func (s space) get(kind, name string) *unstructured.Unstructured {
	s.Helper()
	ctx, cancel := s.limit()
	defer cancel()
	object, err := s.on.Get(ctx, s.in(kind), name)
	if err != nil {
		s.Fatal(err)
	}
	return object
}

// list reads the objects of a kind, those that a selector of labels selects.
func (s space) list(kind, selector string) []unstructured.Unstructured {
	s.Helper()
	ctx, cancel := s.limit()
	defer cancel()
	list, err := s.on.List(ctx, s.in(kind), selector)
	if err != nil {
		s.Fatal(err)
	}
	return list.Items
}

// read is what 'kubectl get KIND NAME -o jsonpath=TEMPLATE' prints.
func (s space) read(kind, name, template string) answer {
	s.Helper()
	return s.readIn(s.in(kind), name, template)
}

// readIn is read in another namespace.
func (s space) readIn(in cluster.In, name, template string) answer {
	s.Helper()
	ctx, cancel := s.limit()
	defer cancel()
	object, err := s.on.Get(ctx, in, name)
	if err != nil {
		return answer{stderr: err.Error(), err: err}
	}
	text, err := cluster.Show(object, template)
	if err != nil {
		s.Fatal(err)
	}
	return answer{stdout: text}
}

func (s space) exists(kind, name string) bool {
	s.Helper()
	ctx, cancel := s.limit()
	defer cancel()
	_, err := s.on.Get(ctx, s.in(kind), name)
	if err != nil && !apierrors.IsNotFound(err) {
		s.Fatal(err)
	}
	return err == nil
}

// restart deletes the VMI of a VM, and waits for the next one. kubectl does not wait for the end of the first: where the next one is there before kubectl
// watches, it would wait for the end of that one.
func (s space) restart(name string) {
	s.Helper()
	uid := string(s.get("vmi", name).GetUID())
	s.must(s.kubectl("", "delete", "vmi", name, "--wait=false"))
	s.longer("VM '"+name+"' has another VMI", func() bool { return s.another(name, uid) })
}

// another reports whether there is a VMI of a name that has another UID. It reads once: between two reads the old one may go.
func (s space) another(name, than string) bool {
	s.Helper()
	uid := s.read("vmi", name, "{.metadata.uid}").stdout
	return uid != "" && uid != than
}
