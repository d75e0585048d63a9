package validate

import (
	"reflect"
	"runtime"
	"strings"
)

// Rules are the names of the functions that judge a guest, in their order.
func Rules() (names []string) {
	for _, judge := range rules {
		names = append(names, function(judge))
	}
	for _, judge := range metadataRules {
		names = append(names, function(judge))
	}
	return names
}

func function(f any) string {
	name := runtime.FuncForPC(reflect.ValueOf(f).Pointer()).Name()
	return name[strings.LastIndexByte(name, '.')+1:]
}

// Without calls judge while a rule is left out. Nothing else may judge meanwhile.
func Without(name string, judge func()) {
	all, allMetadata := rules, metadataRules
	defer func() { rules, metadataRules = all, allMetadata }()
	rules, metadataRules = others(all, name), others(allMetadata, name)
	judge()
}

func others[R any](all []R, name string) (left []R) {
	for _, judge := range all {
		if function(judge) != name {
			left = append(left, judge)
		}
	}
	return left
}
