//go:build cdi

// Objects prints what CDI's operator makes for the API server and the controller of CDI, as a list for 'kubectl create': definitions, rights, webhooks,
// Deployments, and certificates. Its arguments are the namespace, the images of both programs, and the image of pods that prepare claims.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	utilcert "k8s.io/client-go/util/cert"
	"kubevirt.io/containerized-data-importer/pkg/operator/resources"
	"kubevirt.io/containerized-data-importer/pkg/operator/resources/cert"
	"kubevirt.io/containerized-data-importer/pkg/operator/resources/cluster"
	"kubevirt.io/containerized-data-importer/pkg/operator/resources/namespaced"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

func main() {
	if err := printObjects(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "objects:", err)
		os.Exit(1)
	}
}

func printObjects(args []string) error {
	if len(args) != 4 {
		return fmt.Errorf("want the namespace and the images of cdi-apiserver, cdi-controller and shell, got %q", args)
	}
	namespace := args[0]
	definition := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal([]byte(resources.CDICRDs["cdi"]), definition); err != nil { // the operator comes with this one
		return err
	}
	all := []client.Object{definition}
	static, err := cluster.CreateAllStaticResources(&cluster.FactoryArgs{Namespace: namespace})
	if err != nil {
		return err
	}
	programs, err := programsOf(namespaced.FactoryArgs{Namespace: namespace, APIServerImage: args[1], ControllerImage: args[2], ClonerImage: args[3]})
	if err != nil {
		return err
	}
	served, err := certified(namespace)
	if err != nil {
		return err
	}
	all = append(append(append(all, static...), programs...), served...)
	return json.NewEncoder(os.Stdout).Encode(map[string]any{"apiVersion": "v1", "kind": "List", "items": all})
}

// programsOf returns accounts, rights, Services and Deployments. Pods that copy data would not start: they have other commands than a shell, or an image that
// does not exist.
func programsOf(args namespaced.FactoryArgs) (all []client.Object, err error) {
	const absent = "absent"
	args.ImporterImage, args.UploadServerImage, args.OvirtPopulatorImage = absent, absent, absent
	args.PullPolicy, args.Verbosity = string(corev1.PullNever), "3"
	for _, group := range []string{"apiserver", "controller"} {
		some, err := namespaced.CreateResourceGroup(group, &args)
		if err != nil {
			return nil, err
		}
		for _, object := range some {
			if deployment, is := object.(*appsv1.Deployment); is {
				fitImage(&deployment.Spec.Template.Spec)
			}
		}
		all = append(all, some...)
	}
	return all, nil
}

// fitImage fits a pod to an image that has nothing but the program: CDI's images have an account, /tmp, and cat for the probe.
func fitImage(pod *corev1.PodSpec) {
	const temporary = "tmp"
	account := int64(65532)
	pod.SecurityContext.RunAsUser = &account
	pod.Volumes = append(pod.Volumes, corev1.Volume{Name: temporary, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	program := &pod.Containers[0]
	program.VolumeMounts = append(program.VolumeMounts, corev1.VolumeMount{Name: temporary, MountPath: "/tmp"})
	if probe := program.ReadinessProbe; probe != nil && probe.Exec != nil {
		program.ReadinessProbe = nil
	}
}

// certified returns the webhooks, and the Secrets and ConfigMaps that the operator writes keys and certificates into. One certificate serves for all of them.
// The APIService of uploads is left out: a namespace would not be deleted while it does not answer.
func certified(namespace string) (all []client.Object, err error) {
	certificate, key, err := utilcert.GenerateSelfSignedCertKey(cluster.APIServerServiceName+"."+namespace+".svc", nil, nil)
	if err != nil {
		return nil, err
	}
	webhooks, err := cluster.CreateAllDynamicResources(&cluster.FactoryArgs{Namespace: namespace})
	if err != nil {
		return nil, err
	}
	for _, object := range webhooks {
		switch of := object.(type) {
		case *admissionv1.MutatingWebhookConfiguration:
			for i := range of.Webhooks {
				of.Webhooks[i].ClientConfig.CABundle = certificate
			}
		case *admissionv1.ValidatingWebhookConfiguration:
			for i := range of.Webhooks {
				of.Webhooks[i].ClientConfig.CABundle = certificate
			}
		default:
			continue
		}
		all = append(all, object)
	}
	for _, of := range cert.CreateCertificateDefinitions(&cert.FactoryArgs{Namespace: namespace}) {
		for _, secret := range []*corev1.Secret{of.SignerSecret, of.TargetSecret} {
			if secret != nil {
				secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
				secret.Data = map[string][]byte{corev1.TLSCertKey: certificate, corev1.TLSPrivateKeyKey: key}
				all = append(all, secret)
			}
		}
		of.CertBundleConfigmap.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
		of.CertBundleConfigmap.Data = map[string]string{"ca-bundle.crt": string(certificate)}
		all = append(all, of.CertBundleConfigmap)
	}
	return all, nil
}
