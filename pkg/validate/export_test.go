package validate

import (
	"reflect"
	"runtime"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/pkg/config"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Listed names as many as a warning has room for.
var Listed = listNames

// Judges are the names of the functions that judge a guest, in their order.
func Judges() (names []string) {
	for _, rule := range guestRules {
		names = append(names, function(rule.judge))
	}
	for _, rule := range metadataRules {
		names = append(names, function(rule.judge))
	}
	return names
}

func function(f any) string {
	name := runtime.FuncForPC(reflect.ValueOf(f).Pointer()).Name()
	return name[strings.LastIndexByte(name, '.')+1:]
}

// Without calls do while a function that judges guests is left out. Nothing else may judge meanwhile.
func Without(name string, do func()) {
	all, allMetadata := guestRules, metadataRules
	defer func() { guestRules, metadataRules = all, allMetadata }()
	guestRules, metadataRules = others(all, name), others(allMetadata, name)
	do()
}

func others[F any](all []judgement[F], name string) (left []judgement[F]) {
	for _, rule := range all {
		if function(rule.judge) != name {
			left = append(left, rule)
		}
	}
	return left
}

// Undeclared are the rules by which a function refuses a guest though its literal does not list them.
func Undeclared(vmi *v1.VirtualMachineInstance, limits config.Limits) (names []string) {
	for _, rule := range guestRules {
		names = append(names, missing(rule.rules, rule.judge(&vmi.Spec, limits, field.NewPath("spec")))...)
	}
	for _, rule := range metadataRules {
		names = append(names, missing(rule.rules, rule.judge(vmi, limits, nil))...)
	}
	return names
}

func missing(rules []Rule, errs field.ErrorList) (names []string) {
	for _, err := range errs {
		if !slices.ContainsFunc(rules, func(rule Rule) bool { return rule.Name == err.Origin }) {
			names = append(names, err.Origin)
		}
	}
	return names
}

var TimezoneNames = timezoneNames
