package main

import (
	"fmt"
	"strings"

	"github.com/kilnvm/kiln/certs"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// Values of --rotate: whether the webhook signs its own certificates, and how they get into --certs.
const (
	rotateMounted  = "mounted"  // kubelet mounts the Secret
	rotateMirrored = "mirrored" // this process writes the files: outside of a cluster there is no kubelet
)

// certificates follows the files of --certs, and has them signed if asked to.
func certificates(mgr ctrl.Manager, o options, serving *certs.Serving) error {
	if err := mgr.Add(serving); err != nil {
		return err
	}
	if err := metrics.Registry.Register(serving); err != nil {
		return err
	}
	rotation := certs.Options{Dir: o.certs}
	if o.names != "" {
		rotation.Names = strings.Split(o.names, ",")
	}
	switch o.rotate {
	case "":
		return nil
	case rotateMounted:
	case rotateMirrored:
		if err := certs.Mirror(mgr, rotation); err != nil {
			return err
		}
	default:
		return fmt.Errorf("--rotate '%s' is neither '%s' nor '%s'", o.rotate, rotateMounted, rotateMirrored)
	}
	_, err := certs.Rotate(mgr, rotation) // the readiness check makes a handshake, which tells as much as the channel
	return err
}
