package node

import (
	"embed"
	"errors"
	"net"
	"os"
	"path/filepath"
	"text/template"

	certutil "k8s.io/client-go/util/cert"

	"github.com/kilnvm/kiln/test/controlplane/authority"
)

//go:embed containerd.toml cni.json kubelet.yaml proxy.yaml
var files embed.FS

var templates = template.Must(template.ParseFS(files, "*"))

// writeConfiguration writes the files of the programs into the node's directory.
func (s Spec) writeConfiguration() error {
	if err := os.MkdirAll(s.pathInDir("cni"), 0o755); err != nil {
		return err
	}
	for name, target := range map[string]string{
		"containerd.toml": "containerd.toml", "cni.json": "cni/pods.conflist", "kubelet.yaml": "kubelet.yaml", "proxy.yaml": "proxy.yaml",
	} {
		if err := s.writeFile(name, s.pathInDir(target)); err != nil {
			return err
		}
	}
	return nil
}

func (s Spec) writeFile(name, target string) error {
	file, err := os.Create(target)
	if err != nil {
		return err
	}
	return errors.Join(templates.ExecuteTemplate(file, name, s), file.Close())
}

// Users of the programs, in the groups that Kubernetes' roles know.
var (
	controllerManager = authority.User{Name: "system:kube-controller-manager"}
	scheduler         = authority.User{Name: "system:kube-scheduler"}
	proxy             = authority.User{Name: "system:kube-proxy"}
	// asKubelet is the API server, when it asks kubelets for logs and the like.
	asKubelet = authority.User{Name: "kube-apiserver-kubelet-client", Groups: []string{"system:masters"}}
)

// kubeletUser returns the user that may write what belongs to its node.
func (s Spec) kubeletUser() authority.User {
	return authority.User{Name: "system:node:" + s.Name, Groups: []string{"system:nodes"}}
}

// writeCertificates writes the certificates and kubeconfigs of the programs. The authority itself stays outside.
func (s Spec) writeCertificates(ca *authority.Authority) error {
	names := certutil.AltNames{DNSNames: []string{s.Name}, IPs: []net.IP{nodeAddress(s.Number)}}
	err := errors.Join(ca.WriteCA(s.Dir), ca.WriteServing(s.pathInDir("kubelet"), s.Name, names))
	users := []authority.User{s.kubeletUser(), proxy, authority.Admin}
	if s.isFirst() {
		users = append(users, controllerManager, scheduler)
		err = errors.Join(err, ca.WriteServerFiles(s.Dir, nodeAddress(s.Number), serviceAPI), ca.WriteClient(s.pathInDir("apiserver-kubelet"), asKubelet))
	}
	for _, user := range users {
		_, failed := ca.WriteKubeconfig(s.Dir, apiServer(), user)
		err = errors.Join(err, failed)
	}
	return err
}

// kubeconfigPath returns the file of a user in the node's directory.
func (s Spec) kubeconfigPath(user authority.User) string {
	return filepath.Join(s.Dir, authority.FileName(user))
}
