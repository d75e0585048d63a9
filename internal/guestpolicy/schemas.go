package guestpolicy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	"k8s.io/client-go/discovery"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// Schemas finds the schemas of paramKinds in the OpenAPI document of an API server, which every account may read.
type Schemas struct {
	Discovery discovery.DiscoveryInterface

	lock  sync.Mutex
	known map[v1alpha1.GuestPolicyParamKind]knownSchema
}

// knownSchema is a schema, or nil, and the time until which it is not read again.
type knownSchema struct {
	schema *spec.Schema
	until  time.Time
}

// schemaAge is how long a schema is kept: a CustomResourceDefinition may change.
const schemaAge = 10 * time.Second

// mostSchemas bounds the schemas that are kept. Administrators write policies.
const mostSchemas = 64

// Of returns the schema of a paramKind; nil if the cluster does not serve the kind, or has no schema of it.
func (s *Schemas) Of(kind v1alpha1.GuestPolicyParamKind) (*spec.Schema, error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if known, ok := s.known[kind]; ok && time.Now().Before(known.until) {
		return known.schema, nil
	}
	of, err := (&resolver.ClientDiscoveryResolver{Discovery: s.Discovery}).ResolveSchema(schema.FromAPIVersionAndKind(kind.APIVersion, kind.Kind))
	if errors.Is(err, resolver.ErrSchemaNotFound) {
		of, err = nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the schema of %s %s: %w", kind.APIVersion, kind.Kind, err)
	}
	if s.known == nil || len(s.known) >= mostSchemas {
		s.known = map[v1alpha1.GuestPolicyParamKind]knownSchema{}
	}
	s.known[kind] = knownSchema{of, time.Now().Add(schemaAge)}
	return of, nil
}

// sameSchema reports whether two schemas are equal.
func sameSchema(a, b *spec.Schema) bool {
	if a == nil || b == nil {
		return a == b
	}
	was, err := json.Marshal(a)
	is, more := json.Marshal(b)
	return err == nil && more == nil && bytes.Equal(was, is)
}
