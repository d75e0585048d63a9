// Package catalogs reads catalogs, which are sets of instancetypes and preferences, from folders and clusters. It finds their mistakes, lists what VMs may
// choose and what VMs use, and makes artifacts and pages of them. Package pkg/catalog has the rules.
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

// Catalog has the instancetypes and preferences of one source.
type Catalog struct {
	// Source is the folder, file or reference that the user gave.
	Source string
	// Objects are the objects that the schemas of their kinds accept.
	Objects []*catalog.Object
	// Refused has the findings about files and objects that are not in Objects.
	Refused []Finding

	// Origins are the objects as they were read, in the order of Objects.
	Origins []manifest.Object
}

// Finding is a finding of lint with its position.
type Finding struct {
	Rule     string           `json:"rule"`
	Severity catalog.Severity `json:"severity"`
	// Object is kind, namespace and name; empty for a file that cannot be read.
	Object string `json:"object,omitempty"`
	Field  string `json:"field,omitempty"`
	// File and Line are the position of the field, or of its nearest parent if the field is missing. They are empty for an object of a cluster.
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Message string `json:"message"`
	Remedy  string `json:"remedy"`
}

// Parse reads the objects of files, and checks them against the schemas of their kinds. Namespaced objects without a namespace get the given one. An object
// that cannot be read or is refused is a finding; an error is a fault of Kiln.
func Parse(source, namespace string, files []manifest.File) (Catalog, error) {
	c := Catalog{Source: source}
	at := &manifest.Positions{}
	for _, file := range files {
		for _, object := range (manifest.Files{Namespace: namespace}).SetNamespaces(file.Objects(at)) {
			kind := object.GroupVersionKind()
			switch {
			case object.Fault != nil:
				c.addRefusal(object, RuleUnreadable, field.Invalid(nil, "", object.Fault.Error()))
				continue
			case kind.Group != v1beta1.SchemeGroupVersion.Group || !slices.Contains(instancetype.CatalogKinds(), kind.Kind):
				c.addRefusal(object, ruleForeign, field.Invalid(nil, "", object.Name()+" is neither an instancetype nor a preference"))
				continue
			}
			if err := object.CheckSchema(); err != nil {
				return c, err
			}
			c.addObject(object)
		}
	}
	return c, nil
}

// addObject adds an object after its schema was checked, or findings if it is refused.
func (c *Catalog) addObject(object manifest.Object) {
	before := len(c.Refused)
	for _, err := range object.Mistakes {
		c.addRefusal(object, ruleOf(err), err)
	}
	if object.GetName() == "" {
		c.addRefusal(object, ruleName, field.Required(field.NewPath("metadata", "name"), "a generated name cannot be referred to"))
	}
	c.refuseKeys(object)
	raw, err := object.MarshalJSON()
	if err != nil {
		c.addRefusal(object, ruleSchema, field.Invalid(nil, "", err.Error()))
	} else if over := validate.Counts(raw); over != nil { // as in the webhook, the rest is not judged then
		c.addRefusal(object, ruleSchema, over)
	}
	if len(c.Refused) > before {
		return
	}
	typed, err := typedObject(object, raw)
	if err != nil {
		c.addRefusal(object, ruleSchema, field.Invalid(field.NewPath("spec"), "", err.Error()))
		return
	}
	c.Objects, c.Origins = append(c.Objects, typed), append(c.Origins, object)
}

// typedObject decodes an object into the type of pkg/catalog. Its schema must have accepted it.
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

// refuseKeys adds a finding for each key that the object's document contains twice: an API server sees only the last one. If the line '---' between two objects
// is missing, all keys of the second one are repeated: one finding says so.
func (c *Catalog) refuseKeys(object manifest.Object) {
	keys := object.RepeatedKeys()
	joined := slices.ContainsFunc(keys, func(key manifest.RepeatedKey) bool { return key.Text == `"apiVersion"` })
	for _, key := range keys {
		text := fmt.Sprintf("key %s already set in map", key.Text)
		switch {
		case joined && key.Text == `"apiVersion"`:
			text += ": if another object begins here, write a line '---' before it"
		case joined && slices.Contains([]string{`"kind"`, `"metadata"`, `"spec"`}, key.Text):
			continue
		}
		f := c.newFinding(object, ruleDuplicateKey, field.Invalid(nil, "", text))
		f.Line = key.Line
		c.Refused = append(c.Refused, f)
	}
}

// addRefusal adds a finding about an object that is left out.
func (c *Catalog) addRefusal(object manifest.Object, rule string, err *field.Error) {
	c.Refused = append(c.Refused, c.newFinding(object, rule, err))
}

// newFinding returns a finding with the severity and the remedy of its rule, at the line of the field.
func (c *Catalog) newFinding(object manifest.Object, rule string, err *field.Error) Finding {
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

// Lint judges a catalog with the lifecycles at the time now. Without a configuration every feature gate is on, because a catalog is meant for many
// clusters. The warnings are about the configuration.
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

// RefusedByRuntime returns why the runtime of the bench starts no guest of an object, by the keys of these objects. The configuration is the same as in Lint.
func RefusedByRuntime(ctx context.Context, b *workbench.Bench, c Catalog) (map[catalog.Key]string, error) {
	settings, _, err := lintSettings(ctx, b, time.Time{})
	if err != nil {
		return nil, err
	}
	return catalog.RefusedByRuntime(c.Objects, settings), nil
}

// Compare compares two versions of a catalog. The configuration and the warnings are the same as in Lint.
func Compare(ctx context.Context, b *workbench.Bench, sides [2]Catalog, now time.Time) (catalog.Difference, []string, error) {
	settings, warnings, err := lintSettings(ctx, b, now)
	if err != nil {
		return catalog.Difference{}, warnings, err
	}
	return catalog.Compare(sides[0].Objects, sides[1].Objects, settings), warnings, nil
}

// lintSettings returns the configuration by which catalogs are judged, with the runtime of the bench. Lifecycles are judged at the time now.
func lintSettings(ctx context.Context, b *workbench.Bench, now time.Time) (settings catalog.Settings, warnings []string, err error) {
	settings = catalog.Settings{Cluster: config.Default(), Now: now}
	settings.Cluster.Limits.Gates = config.AllGates()
	if b.Config == "" {
		settings.Cluster, err = b.WithRuntime(settings.Cluster)
		return settings, nil, err
	}
	read, warnings, err := b.Configuration(ctx, manifest.Inputs{})
	settings.Cluster = read.Cluster
	return settings, warnings, err
}

// Select returns the catalog with only the objects that the labels match. It keeps all findings, because a wrong label may be the mistake.
func (c Catalog) Select(wanted labels.Selector) Catalog {
	selected := Catalog{Source: c.Source, Refused: c.Refused}
	for i, o := range c.Objects {
		if wanted.Matches(labels.Set(o.Labels)) {
			selected.Objects, selected.Origins = append(selected.Objects, o), append(selected.Origins, c.Origins[i])
		}
	}
	return selected
}

// Count returns the numbers of instancetypes and preferences.
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
