// Package pods runs guests as pods on real Kubernetes nodes, with Kiln installed as its users install it: image, manifests, real kubectl.
package pods
