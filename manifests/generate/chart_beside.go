package main

import (
	"fmt"
	"reflect"
	"slices"
)

// Values of chartObject.only: the chart contains the object only with or without KubeVirt beside Kiln, or beside KubeVirt only with or without the plugin.
const (
	beside  = ".Values.kubevirt.beside"
	alone   = "not .Values.kubevirt.beside"
	plugins = `and .Values.kubevirt.beside (eq .Values.kubevirt.hook "Plugin")`
	sidecar = `and .Values.kubevirt.beside (ne .Values.kubevirt.hook "Plugin")`
)

// twice are the kinds whose objects the chart contains in two versions if the component beside-kubevirt changes them. Its changes of other kinds are in the
// list places.
var twice = []string{"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration", "ClusterRole"}

// besideKubeVirt adds the objects of manifests/default that the component beside-kubevirt changes, as second versions, and sets the field only of the objects
// that it removes or changes.
func besideKubeVirt(manifests string, all []chartObject) ([]chartObject, error) {
	var builds [4][]map[string]any
	for i, components := range []string{"%[1]s/namespace", "%[1]s/beside-kubevirt, %[1]s/namespace",
		"%[1]s/webhook/fail-open, %[1]s/beside-kubevirt, %[1]s/namespace",
		"%[1]s/beside-kubevirt, %[1]s/beside-kubevirt/plugin, %[1]s/namespace"} {
		var err error
		if builds[i], err = buildKustomization(manifests, "resources: [%[1]s/default]\ncomponents: ["+components+"]", ""); err != nil {
			return nil, fmt.Errorf("%s: %w", components, err)
		}
	}
	changed, open := byIdentity(builds[1]), byIdentity(builds[2])
	for _, object := range builds[0] {
		id := objectIdentity(object)
		i := slices.IndexFunc(all, func(o chartObject) bool { return objectIdentity(o.object) == id })
		now, kept := changed[id]
		switch {
		case !kept:
			all[i].only = alone
		case slices.Contains(twice, fmt.Sprint(object["kind"])) && !reflect.DeepEqual(object, now):
			all[i].only = alone
			markFailurePolicies(now, open[id])
			all = slices.Insert(all, i+1, chartObject{object: now, when: all[i].when, only: beside})
		}
		delete(changed, id)
	}
	for id := range changed {
		return nil, fmt.Errorf("component beside-kubevirt adds %s, for which the chart has no place", id)
	}
	return withPlugin(all, byIdentity(builds[1]), builds[3], open), nil
}

// withPlugin adds the objects that the component beside-kubevirt/plugin adds to the component beside-kubevirt, and its version of the webhook
// configuration. open are the objects with the component fail-open.
func withPlugin(all []chartObject, without map[string]map[string]any, with []map[string]any, open map[string]map[string]any) []chartObject {
	for _, object := range with {
		id := objectIdentity(object)
		was, known := without[id]
		markFailurePolicies(object, open[id])
		switch {
		case !known:
			all = append(all, chartObject{object: object, only: plugins})
		case slices.Contains(twice, fmt.Sprint(object["kind"])) && !reflect.DeepEqual(object, was):
			i := slices.IndexFunc(all, func(o chartObject) bool { return objectIdentity(o.object) == id && o.only == beside })
			all[i].only = sidecar
			all = slices.Insert(all, i+1, chartObject{object: object, when: all[i].when, only: plugins})
		}
	}
	return all
}

func byIdentity(objects []map[string]any) map[string]map[string]any {
	found := map[string]map[string]any{}
	for _, object := range objects {
		found[objectIdentity(object)] = object
	}
	return found
}
