package main

import (
	"crypto"
	"crypto/x509"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm"
	"k8s.io/kubernetes/cmd/kubeadm/app/util/pkiutil"
)

// authority signs the serving certificate and every client certificate. Its key stays in memory:
// whoever can read the directory afterwards cannot make himself a new user.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

func newAuthority() (*authority, error) {
	cert, key, err := pkiutil.NewCertificateAuthority(certConfig("kiln-control-plane"))
	if err != nil {
		return nil, err
	}
	return &authority{cert, key}, nil
}

func certConfig(commonName string) *pkiutil.CertConfig {
	return &pkiutil.CertConfig{
		Config:              certutil.Config{CommonName: commonName},
		EncryptionAlgorithm: kubeadm.EncryptionAlgorithmECDSAP256,
	}
}

// writeServerFiles writes what the API server reads: ca.crt, apiserver.crt and .key for the name
// localhost and 127.0.0.1, and sa.pub and .key, with which it signs service account tokens.
func (a *authority) writeServerFiles(dir string) error {
	config := certConfig("kube-apiserver")
	config.Usages = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	config.AltNames = certutil.AltNames{DNSNames: []string{"localhost"}, IPs: []net.IP{net.IPv4(127, 0, 0, 1)}}
	cert, key, err := pkiutil.NewCertAndKey(a.cert, a.key, config)
	if err != nil {
		return err
	}
	if err := pkiutil.WriteCertAndKey(dir, "apiserver", cert, key); err != nil {
		return err
	}
	if err := pkiutil.WriteCert(dir, "ca", a.cert); err != nil {
		return err
	}
	signer, err := pkiutil.GeneratePrivateKey(kubeadm.EncryptionAlgorithmECDSAP256)
	if err != nil {
		return err
	}
	if err := pkiutil.WriteKey(dir, "sa", signer); err != nil {
		return err
	}
	return pkiutil.WritePublicKey(dir, "sa", signer.Public())
}

// user is somebody who logs in by client certificate.
type user struct {
	name   string
	groups []string
}

// admin is in the group that the API server lets do everything, whatever RBAC says.
var admin = user{"admin", []string{"system:masters"}}

// parseUser reads NAME or NAME=GROUP,GROUP. A service account's name has colons in it, as in
// system:serviceaccount:NAMESPACE:NAME.
func parseUser(s string) (user, error) {
	name, groups, _ := strings.Cut(s, "=")
	if name == "" || name == admin.name {
		return user{}, fmt.Errorf("--user '%s': the name must not be empty or 'admin'", s)
	}
	u := user{name: name}
	if groups != "" {
		u.groups = strings.Split(groups, ",")
	}
	return u, nil
}

// writeKubeconfig writes DIR/NAME.kubeconfig, readable by its owner alone, and gives its path. The
// name is escaped: a colon would end the path in $KUBECONFIG, which is a list.
func (a *authority) writeKubeconfig(dir, server string, u user) (string, error) {
	config := certConfig(u.name)
	config.Organization = u.groups
	config.Usages = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	cert, key, err := pkiutil.NewCertAndKey(a.cert, a.key, config)
	if err != nil {
		return "", err
	}
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return "", err
	}
	const cluster = "kiln"
	kubeconfig := api.NewConfig()
	kubeconfig.Clusters[cluster] = &api.Cluster{Server: server, CertificateAuthorityData: pkiutil.EncodeCertPEM(a.cert)}
	kubeconfig.AuthInfos[u.name] = &api.AuthInfo{ClientCertificateData: pkiutil.EncodeCertPEM(cert), ClientKeyData: keyPEM}
	kubeconfig.Contexts[cluster] = &api.Context{Cluster: cluster, AuthInfo: u.name}
	kubeconfig.CurrentContext = cluster
	path := filepath.Join(dir, url.QueryEscape(u.name)+".kubeconfig")
	data, err := clientcmd.Write(*kubeconfig)
	if err != nil {
		return "", err
	}
	return path, os.WriteFile(path, data, 0o600)
}
