// Package catalogs reads catalogs, which are sets of instancetypes and preferences, from folders and clusters: what is wrong with one, what a VM may choose
// of it, who uses it, and what is published of it. Package pkg/catalog has the rules.
package catalogs

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
	"github.com/kilnvm/kiln/pkg/catalog"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/instancetype"
	"github.com/kilnvm/kiln/pkg/validate"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"kubevirt.io/api/instancetype/v1beta1"
)

// Catalog is the instancetypes and preferences of one source.
type Catalog struct {
	// Source is what the user named.
	Source string
	// Objects have passed the schemas of their kinds.
	Objects []*catalog.Object
	// Refused are the findings about files and objects that are not among Objects.
	Refused []Finding

	// Origins are the objects as they were read, in the order of Objects.
	Origins []manifest.Object
}

// Finding is a finding with its place.
type Finding struct {
	Rule     string           `json:"rule"`
	Severity catalog.Severity `json:"severity"`
	// Object is kind, namespace and name; empty for a file that cannot be read.
	Object string `json:"object,omitempty"`
	Field  string `json:"field,omitempty"`
	// File and Line are where the field stands, or the nearest parent of one that is missing. An object of a cluster has neither.
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Message string `json:"message"`
	Remedy  string `json:"remedy"`
}

// Parse reads the objects of files, and judges them by the schemas of their kinds. namespace is that of namespaced objects that have none. What
// cannot be read or is refused becomes a finding; an error is ours.
func Parse(source, namespace string, files []manifest.File) (Catalog, error) {
	c := Catalog{Source: source}
	at := &manifest.Positions{}
	for _, file := range files {
		for _, object := range (manifest.Files{Namespace: namespace}).SetNamespaces(file.Objects(at)) {
			kind := object.GroupVersionKind()
			switch {
			case object.Fault != nil:
				c.refuse(object, RuleUnreadable, field.Invalid(nil, "", object.Fault.Error()))
				continue
			case kind.Group != v1beta1.SchemeGroupVersion.Group || !slices.Contains(instancetype.CatalogKinds(), kind.Kind):
				c.refuse(object, ruleForeign, field.Invalid(nil, "", object.Name()+" is no instancetype and no preference"))
				continue
			}
			if err := object.CheckSchema(); err != nil {
				return c, err
			}
			c.add(object)
		}
	}
	return c, nil
}

// add adds an object that was judged by its schema, if that accepts it.
func (c *Catalog) add(object manifest.Object) {
	before := len(c.Refused)
	for _, err := range object.Mistakes {
		c.refuse(object, ruleOf(err), err)
	}
	if object.GetName() == "" {
		c.refuse(object, ruleName, field.Required(field.NewPath("metadata", "name"), "a generated name cannot be referred to"))
	}
	c.refuseKeys(object)
	raw, err := object.MarshalJSON()
	if err != nil {
		c.refuse(object, ruleSchema, field.Invalid(nil, "", err.Error()))
	} else if over := validate.Counts(raw); over != nil { // as in the webhook, nothing else is judged then
		c.refuse(object, ruleSchema, over)
	}
	if len(c.Refused) > before {
		return
	}
	typed, err := typedObject(object, raw)
	if err != nil {
		c.refuse(object, ruleSchema, field.Invalid(field.NewPath("spec"), "", err.Error()))
		return
	}
	c.Objects, c.Origins = append(c.Objects, typed), append(c.Origins, object)
}

// typedObject returns an object as package catalog judges it. The schema has accepted it before.
func typedObject(object manifest.Object, raw []byte) (*catalog.Object, error) {
	typed := &catalog.Object{Kind: object.GetKind()}
	typed.Namespace, typed.Name, typed.Labels, typed.Annotations = object.GetNamespace(), object.GetName(), object.GetLabels(), object.GetAnnotations()
	if slices.Contains(instancetype.Kinds.Both(), typed.Kind) {
		var read v1beta1.VirtualMachineInstancetype
		err := json.Unmarshal(raw, &read)
		typed.Instancetype = &read.Spec
		return typed, err
	}
	var read v1beta1.VirtualMachinePreference
	err := json.Unmarshal(raw, &read)
	typed.Preference = &read.Spec
	return typed, err
}

// refuseKeys finds keys that stand twice in the object's document: an API server sees only the last one.
func (c *Catalog) refuseKeys(object manifest.Object) {
	for _, key := range object.RepeatedKeys() {
		f := c.finding(object, ruleDuplicateKey, field.Invalid(nil, "", fmt.Sprintf("key %s already set in map", key.Text)))
		f.Line = key.Line
		c.Refused = append(c.Refused, f)
	}
}

// refuse adds a finding about an object that is left out.
func (c *Catalog) refuse(object manifest.Object, rule string, err *field.Error) {
	c.Refused = append(c.Refused, c.finding(object, rule, err))
}

// finding returns a finding with the severity and the remedy of its rule, at the line of the field.
func (c *Catalog) finding(object manifest.Object, rule string, err *field.Error) Finding {
	at := slices.IndexFunc(readingRules, func(r catalog.Rule) bool { return r.Name == rule })
	f := Finding{Rule: rule, Severity: readingRules[at].Severity, Object: object.Name(), Field: err.Field, File: object.File(),
		Message: err.Detail, Remedy: readingRules[at].Remedy}
	if err.Field != "" {
		f.Message = err.ErrorBody()
	}
	if object.Fault == nil {
		f.Line = object.LineInFile(err.Field)
	}
	return f
}

// Lint judges a catalog. Without a configuration every feature gate is on: a catalog is meant for many clusters. The warnings are on the
// configuration.
func Lint(ctx context.Context, b *workbench.Bench, c Catalog, now time.Time) ([]Finding, []string, error) {
	settings, warnings, err := lintSettings(ctx, b, now)
	if err != nil {
		return nil, warnings, err
	}
	all := slices.Clone(c.Refused)
	for _, f := range catalog.Lint(c.Objects, settings) {
		origin := c.Origins[f.Object]
		all = append(all, Finding{Rule: f.Rule, Severity: f.Severity, Object: origin.Name(), Field: f.Field, File: origin.File(),
			Line: origin.LineInFile(f.Field), Message: f.Message, Remedy: f.Remedy})
	}
	slices.SortStableFunc(all, func(a, b Finding) int {
		if a.File != b.File {
			return strings.Compare(a.File, b.File)
		}
		return a.Line - b.Line
	})
	return all, warnings, nil
}

// Compare compares two versions of a catalog, with the configuration and the warnings of Lint.
func Compare(ctx context.Context, b *workbench.Bench, sides [2]Catalog, now time.Time) (catalog.Difference, []string, error) {
	settings, warnings, err := lintSettings(ctx, b, now)
	if err != nil {
		return catalog.Difference{}, warnings, err
	}
	return catalog.Compare(sides[0].Objects, sides[1].Objects, settings), warnings, nil
}

// lintSettings returns the configuration by which catalogs are judged, as of a time: lifecycles depend on it.
func lintSettings(ctx context.Context, b *workbench.Bench, now time.Time) (catalog.Settings, []string, error) {
	settings := catalog.Settings{Cluster: config.Default(), Now: now}
	settings.Cluster.Limits.Gates = config.AllGates()
	if b.Config == "" {
		return settings, nil, nil
	}
	read, warnings, err := b.Configuration(ctx, manifest.Inputs{})
	settings.Cluster = read.Cluster
	return settings, warnings, err
}

// Select returns the catalog's objects with these labels. Findings about objects that are left out stay: their labels may be what is wrong.
func (c Catalog) Select(wanted labels.Selector) Catalog {
	selected := Catalog{Source: c.Source, Refused: c.Refused}
	for i, o := range c.Objects {
		if wanted.Matches(labels.Set(o.Labels)) {
			selected.Objects, selected.Origins = append(selected.Objects, o), append(selected.Origins, c.Origins[i])
		}
	}
	return selected
}

// Count returns how many instancetypes and preferences the catalog has.
func (c Catalog) Count() (instancetypes, preferences int) {
	for _, o := range c.Objects {
		if o.Instancetype != nil {
			instancetypes++
		} else {
			preferences++
		}
	}
	return instancetypes, preferences
}
