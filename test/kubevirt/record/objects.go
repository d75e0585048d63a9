//go:build kubevirt

package main

import (
	"encoding/json"
	"regexp"

	"k8s.io/apimachinery/pkg/runtime"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"kubevirt.io/kubevirt/pkg/virt-api/webhooks"
)

// addDataSources adds the DataSources of a case to their cache.
func addDataSources(informers *webhooks.Informers, c Case) error {
	for i := range c.Objects {
		if c.Objects[i].GetKind() != "DataSource" {
			continue
		}
		source := &cdiv1.DataSource{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(c.Objects[i].Object, source); err != nil {
			return err
		}
		if err := informers.DataSourceInformer.GetStore().Add(source); err != nil {
			return err
		}
	}
	return nil
}

var (
	uuid = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
	when = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$`)
)

// withoutRandom returns a mutated object with '<uuid>' and '<now>' for values that its mutator made.
func withoutRandom(before, after []byte) (json.RawMessage, error) {
	var old, changed any
	if err := json.Unmarshal(before, &old); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(after, &changed); err != nil {
		return nil, err
	}
	return json.Marshal(replaceRandom(old, changed))
}

func replaceRandom(old, changed any) any {
	switch value := changed.(type) {
	case map[string]any:
		before, _ := old.(map[string]any)
		for key := range value {
			value[key] = replaceRandom(before[key], value[key])
		}
	case []any:
		before, _ := old.([]any)
		for i := range value {
			var at any
			if i < len(before) {
				at = before[i]
			}
			value[i] = replaceRandom(at, value[i])
		}
	case string:
		switch {
		case value == old:
		case uuid.MatchString(value):
			return "<uuid>"
		case when.MatchString(value):
			return "<now>"
		}
	}
	return changed
}
