// Package pods runs guests as pods on a real Kubernetes node, with Kiln installed as its users install it: image, manifests, real kubectl.
package pods
