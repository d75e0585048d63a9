package e2e

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/kilnvm/kiln/test/cluster"
)

// used gathers what Kiln's accounts did in the clusters of all tests, so that a right that no test used is found. It is checked when
// all tests have run: a selection of them uses less.
var used footprint

type footprint struct {
	mutex    sync.Mutex
	requests []cluster.Right
}

// note adds what was asked of a cluster, before that is closed. Names of namespaces may differ from cluster to cluster, which is no matter:
// the cluster of most tests has used all rights that are bound to one.
func (u *footprint) note(on *cluster.Cluster) error {
	requests, err := on.Requests()
	u.mutex.Lock()
	defer u.mutex.Unlock()
	u.requests = append(u.requests, requests...)
	return err
}

// unseen are rights that are needed and that no request shows, or that no test can use, each with the reason.
var unseen = map[string]string{}

// check compares what the manifests grant with what was used.
func (u *footprint) check(on *cluster.Cluster) error {
	rights, err := on.Rights()
	if err != nil {
		return err
	}
	u.mutex.Lock()
	defer u.mutex.Unlock()
	var errs []error
	unused := cluster.Unused(rights, u.requests)
	for _, right := range unused {
		if unseen[right.String()] == "" {
			errs = append(errs, fmt.Errorf("no test used the right of %s: remove it, or say in 'unseen' why it is needed", right))
		}
	}
	for text := range unseen {
		if !slices.ContainsFunc(unused, func(right cluster.Right) bool { return right.String() == text }) {
			errs = append(errs, fmt.Errorf("'%s' is in 'unseen', and is used or not granted: take it out", text))
		}
	}
	return errors.Join(errs...)
}
