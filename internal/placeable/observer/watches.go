package observer

import (
	"context"
	"fmt"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/vmipod/podinput"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Source watches what verdicts depend on, and returns the source of the VMs to judge again. A cluster without Multus does not serve its kind. If Multus is
// installed later, a new network is noticed when the VM is judged the next time.
func (o *Observer) Source(mgr ctrl.Manager) (source.Source, error) {
	network := &metav1.PartialObjectMetadata{}
	network.SetGroupVersionKind(podinput.NetworkAttachmentDefinition)
	_, err := mgr.GetRESTMapper().RESTMapping(podinput.NetworkAttachmentDefinition.GroupKind(), podinput.NetworkAttachmentDefinition.Version)
	if err != nil && !meta.IsNoMatchError(err) {
		return nil, err
	}
	hardware := &metav1.PartialObjectMetadata{} // as other controllers watch them: the cache keeps no records
	hardware.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("GuestHardware"))
	watched := []watch{
		{&corev1.Node{}, func(before, after client.Object) {
			was, _ := before.(*corev1.Node)
			is, _ := after.(*corev1.Node)
			o.noteNode(was, is)
		}},
		{&corev1.ResourceQuota{}, o.noteQuota},
		{&corev1.LimitRange{}, func(before, after client.Object) { o.noteNamespace(either(before, after).GetNamespace(), false) }},
		{&corev1.Namespace{}, func(before, after client.Object) {
			if before != nil && after != nil && !equality.Semantic.DeepEqual(before.GetLabels(), after.GetLabels()) {
				o.noteNamespace(after.GetName(), true)
			}
		}},
		{&corev1.PersistentVolumeClaim{}, o.NoteClaim},
		{&storagev1.StorageClass{}, o.NoteClass},
		{hardware, o.NoteHardware},
	}
	if err == nil {
		watched = append(watched, watch{network, func(before, after client.Object) {
			if before == nil || after == nil || !equality.Semantic.DeepEqual(before.GetAnnotations(), after.GetAnnotations()) {
				o.noteDependency(kindNetwork, client.ObjectKeyFromObject(either(before, after)))
			}
		}})
	}
	for _, w := range watched {
		if err := w.follow(mgr); err != nil {
			return nil, err
		}
	}
	found := make(chan event.GenericEvent)
	err = mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		return o.sendChanged(ctx, func(key client.ObjectKey) {
			vm := &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
			select {
			case found <- event.GenericEvent{Object: vm}:
			case <-ctx.Done():
			}
		})
	}))
	return source.Channel(found, &handler.EnqueueRequestForObject{}), err
}

// noteQuota notes a change of a quota. Its spec may demand limits of pods.
func (o *Observer) noteQuota(before, after client.Object) {
	was, _ := before.(*corev1.ResourceQuota)
	is, _ := after.(*corev1.ResourceQuota)
	switch {
	case was == nil || is == nil || !equality.Semantic.DeepEqual(was.Spec, is.Spec):
		o.noteNamespace(either(before, after).GetNamespace(), true)
	case !equality.Semantic.DeepEqual(was.Status, is.Status):
		o.noteNamespace(is.Namespace, false)
	}
}

// NoteClaim notes a change of a claim. The size of a claim that grows is no matter of the pod.
func (o *Observer) NoteClaim(before, after client.Object) {
	was, _ := before.(*corev1.PersistentVolumeClaim)
	is, _ := after.(*corev1.PersistentVolumeClaim)
	if was == nil || is == nil || was.UID != is.UID || was.Status.Phase != is.Status.Phase {
		o.noteDependency(kindClaim, client.ObjectKeyFromObject(either(before, after)))
	}
}

// NoteClass notes that a StorageClass was created or deleted.
func (o *Observer) NoteClass(before, after client.Object) {
	if before == nil || after == nil {
		o.noteDependency(kindClass, client.ObjectKeyFromObject(either(before, after)))
	}
}

// NoteHardware notes a change of a GuestHardware, which has the name of its VM: its spec has the record, and the UIDs of its status say whose it is.
func (o *Observer) NoteHardware(before, after client.Object) {
	if before != nil && after != nil && before.GetResourceVersion() == after.GetResourceVersion() {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if key := client.ObjectKeyFromObject(either(before, after)); o.guests[key] != nil {
		o.markStale(key)
	}
}

// watch is a kind that is watched. note gets an object before and after a change, one of them nil if it was created or deleted.
type watch struct {
	of   client.Object
	note func(before, after client.Object)
}

// follow adds the handler to the informer of the kind.
func (w watch) follow(mgr ctrl.Manager) error {
	informer, err := mgr.GetCache().GetInformer(context.Background(), w.of)
	if err != nil {
		return fmt.Errorf("watching %T: %w", w.of, err)
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(is any) { w.call(nil, is) },
		UpdateFunc: w.call,
		DeleteFunc: func(was any) { w.call(was, nil) },
	})
	return err
}

// call calls note with objects of an informer. An object whose deletion was missed is in a tombstone.
func (w watch) call(was, is any) {
	if gone, missed := was.(toolscache.DeletedFinalStateUnknown); missed {
		was = gone.Obj
	}
	before, _ := was.(client.Object)
	after, _ := is.(client.Object)
	if before != nil || after != nil {
		w.note(before, after)
	}
}

// either returns the object after a change, or the one before if it was deleted.
func either(before, after client.Object) client.Object {
	if after != nil {
		return after
	}
	return before
}
