// Package authority signs the certificates of a control plane and of its nodes.
package authority

import (
	"crypto"
	"crypto/x509"
	"errors"
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

// Authority signs every serving and client certificate. Its key stays in memory, so nobody can create another user from the files of the directory.
type Authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// New makes an authority.
func New() (*Authority, error) {
	cert, key, err := pkiutil.NewCertificateAuthority(certConfig("kiln-control-plane"))
	if err != nil {
		return nil, err
	}
	return &Authority{cert, key}, nil
}

func certConfig(commonName string) *pkiutil.CertConfig {
	return &pkiutil.CertConfig{
		Config:              certutil.Config{CommonName: commonName},
		EncryptionAlgorithm: kubeadm.EncryptionAlgorithmECDSAP256,
	}
}

// FrontProxy is the user as which the API server connects to servers of aggregated APIs. They trust its headers about the caller.
const FrontProxy = "front-proxy-client"

// WriteServerFiles writes what the API server reads: ca.crt, apiserver.crt and .key for localhost, 127.0.0.1 and further addresses, front-proxy.crt and .key,
// and sa.pub and .key, with which it signs service account tokens.
func (a *Authority) WriteServerFiles(dir string, further ...net.IP) error {
	names := certutil.AltNames{DNSNames: []string{"localhost"}, IPs: append([]net.IP{net.IPv4(127, 0, 0, 1)}, further...)}
	if err := a.WriteServing(filepath.Join(dir, "apiserver"), "kube-apiserver", names); err != nil {
		return err
	}
	if err := errors.Join(a.WriteCA(dir), a.WriteClient(filepath.Join(dir, "front-proxy"), User{Name: FrontProxy})); err != nil {
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

// WriteCA writes ca.crt.
func (a *Authority) WriteCA(dir string) error { return pkiutil.WriteCert(dir, "ca", a.cert) }

// WriteServing writes PATH.crt and PATH.key of a server.
func (a *Authority) WriteServing(path, commonName string, names certutil.AltNames) error {
	config := certConfig(commonName)
	config.Usages = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	config.AltNames = names
	return a.write(path, config)
}

// WriteClient writes PATH.crt and PATH.key of a user.
func (a *Authority) WriteClient(path string, u User) error {
	config := certConfig(u.Name)
	config.Organization = u.Groups
	config.Usages = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return a.write(path, config)
}

func (a *Authority) write(path string, config *pkiutil.CertConfig) error {
	cert, key, err := pkiutil.NewCertAndKey(a.cert, a.key, config)
	if err != nil {
		return err
	}
	return pkiutil.WriteCertAndKey(filepath.Dir(path), filepath.Base(path), cert, key)
}

// User authenticates by a client certificate.
type User struct {
	Name   string
	Groups []string
}

// Admin is in the group that may do everything, without RBAC.
var Admin = User{"admin", []string{"system:masters"}}

// ParseUser reads NAME or NAME=GROUP,GROUP. A service account's name has colons in it, as in
// system:serviceaccount:NAMESPACE:NAME.
func ParseUser(s string) (User, error) {
	name, groups, _ := strings.Cut(s, "=")
	if name == "" || name == Admin.Name {
		return User{}, fmt.Errorf("--user '%s': the name must not be empty or 'admin'", s)
	}
	u := User{Name: name}
	if groups != "" {
		u.Groups = strings.Split(groups, ",")
	}
	return u, nil
}

// FileName returns the file name of a user's kubeconfig. The user's name is escaped, because a colon would end the path in $KUBECONFIG, which is a list.
func FileName(u User) string { return url.QueryEscape(u.Name) + ".kubeconfig" }

// WriteKubeconfig writes a kubeconfig into dir, which only its owner can read, and returns its path.
func (a *Authority) WriteKubeconfig(dir, server string, u User) (string, error) {
	config := certConfig(u.Name)
	config.Organization = u.Groups
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
	kubeconfig.AuthInfos[u.Name] = &api.AuthInfo{ClientCertificateData: pkiutil.EncodeCertPEM(cert), ClientKeyData: keyPEM}
	kubeconfig.Contexts[cluster] = &api.Context{Cluster: cluster, AuthInfo: u.Name}
	kubeconfig.CurrentContext = cluster
	path := filepath.Join(dir, FileName(u))
	data, err := clientcmd.Write(*kubeconfig)
	if err != nil {
		return "", err
	}
	return path, os.WriteFile(path, data, 0o600)
}
