package catalogs

import (
	"slices"
	"strings"

	"github.com/kilnvm/kiln/internal/workbench/crdschema"
	"github.com/kilnvm/kiln/pkg/catalog"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Names of the rules that a file or an object violates if it cannot be read.
const (
	// RuleUnreadable is the rule of files and objects that cannot be parsed.
	RuleUnreadable   = "file/unreadable"
	ruleForeign      = "file/foreign"
	ruleDuplicateKey = "file/duplicate-key"
	ruleUnknownField = "api/unknown-field"
	ruleSchema       = "api/schema"
	ruleMetadata     = "api/metadata"
	ruleName         = "api/name"
)

var readingRules = []catalog.Rule{
	{Name: RuleUnreadable, Severity: catalog.Error, Says: "each file is a regular file of the folder that holds objects",
		Remedy: "correct the file, or move it out of the folder"},
	{Name: ruleForeign, Severity: catalog.Note, Says: "a catalog contains only instancetypes and preferences",
		Remedy: "move the object out of the folder: it is not published"},
	{Name: ruleDuplicateKey, Severity: catalog.Error, Says: "a mapping contains a key only once", Remedy: "remove one of them: only the last one counts"},
	{Name: ruleUnknownField, Severity: catalog.Error, Says: "each field exists in the API", Remedy: "correct the name of the field, or remove it"},
	{Name: ruleSchema, Severity: catalog.Error, Says: "the API server accepts each object",
		Remedy: "correct the value: 'kubectl explain' shows the type of the field"},
	{Name: ruleMetadata, Severity: catalog.Error, Says: "the API server accepts labels and annotations", Remedy: "correct the key or value"},
	{Name: ruleName, Severity: catalog.Error, Says: "the API server accepts each name", Remedy: "choose a name of lower-case letters, digits, '-' and '.'"},
}

// Rules returns all rules of catalogs, sorted by name.
func Rules() []catalog.Rule {
	return slices.SortedFunc(slices.Values(slices.Concat(readingRules, catalog.Rules())), func(a, b catalog.Rule) int { return strings.Compare(a.Name, b.Name) })
}

// ruleOf returns the name of the rule that an error of a schema violates.
func ruleOf(err *field.Error) string {
	switch {
	case err.Origin == crdschema.RuleUnknownField:
		return ruleUnknownField
	case err.Field == "metadata.name" || err.Field == "metadata.generateName":
		return ruleName
	case strings.HasPrefix(err.Field, "metadata"):
		return ruleMetadata
	}
	return ruleSchema
}
