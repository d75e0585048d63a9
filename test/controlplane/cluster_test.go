package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const ownerAndOwned = `
apiVersion: v1
kind: ConfigMap
metadata: {name: owned, ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: owner, uid: UID}]}
`

// A cluster without its controllers looks well until something is deleted.
func TestCluster(t *testing.T) {
	s := startSupervisor(t, filepath.Join(t.TempDir(), "cp"), "--user", "bob=devs", "--user", "system:serviceaccount:kiln-system:kiln")

	t.Run("a namespace with content is deleted", func(t *testing.T) {
		s.mustKubectl(t, "", "create", "namespace", "full")
		s.mustKubectl(t, "", "-n", "full", "create", "configmap", "content")
		s.mustKubectl(t, "", "delete", "namespace", "full", "--timeout=60s")
		if out, err := s.kubectl(t, s.Kubeconfig, "", "get", "namespace", "full"); err == nil || !strings.Contains(out, "NotFound") {
			t.Errorf("want it gone, got %v: %s", err, out)
		}
	})
	t.Run("what an object owns goes with it", func(t *testing.T) {
		s.mustKubectl(t, "", "create", "configmap", "owner")
		uid := s.mustKubectl(t, "", "get", "configmap", "owner", "-o", "jsonpath={.metadata.uid}")
		s.mustKubectl(t, strings.ReplaceAll(ownerAndOwned, "UID", uid), "create", "-f", "-")
		s.mustKubectl(t, "", "delete", "configmap", "owner")
		eventually(t, "the owned object is gone", func() (string, bool) {
			out, err := s.kubectl(t, s.Kubeconfig, "", "get", "configmap", "owned")
			return out, err != nil && strings.Contains(out, "NotFound")
		})
	})
	t.Run("RBAC binds everybody but the administrator", func(t *testing.T) {
		bob := s.Users["bob"]
		if out, err := s.kubectl(t, bob, "", "get", "secrets"); err == nil || !strings.Contains(out, `User "bob" cannot list resource "secrets"`) {
			t.Errorf("want bob refused, got %v: %s", err, out)
		}
		// Not one of the roles admin, edit and view: a controller that does not run here fills those.
		s.mustKubectl(t, "", "create", "rolebinding", "devs", "--clusterrole=cluster-admin", "--group=devs")
		eventually(t, "bob's group may", func() (string, bool) {
			out, err := s.kubectl(t, bob, "", "get", "secrets")
			return out, err == nil
		})
	})
	t.Run("a certificate can stand for a service account", func(t *testing.T) {
		const name = "system:serviceaccount:kiln-system:kiln"
		out, err := s.kubectl(t, s.Users[name], "", "auth", "whoami", "-o", "jsonpath={.status.userInfo.username}")
		if err != nil || out != name {
			t.Errorf("want %s, got %v: %s", name, err, out)
		}
	})
	t.Run("service accounts get tokens", func(t *testing.T) {
		token := s.mustKubectl(t, "", "create", "token", "default")
		// With a kubeconfig at hand kubectl would log in with its client certificate instead.
		out, err := s.kubectl(t, os.DevNull, "", "--server", s.Server, "--certificate-authority", s.CA,
			"--token", strings.TrimSpace(token), "auth", "whoami", "-o", "jsonpath={.status.userInfo.username}")
		if err != nil || out != "system:serviceaccount:default:default" {
			t.Errorf("want the service account, got %v: %s", err, out)
		}
	})
	t.Run("the API server knows its version", func(t *testing.T) {
		want, err := plane.wantedVersions("")
		if err != nil {
			t.Fatal(err)
		}
		if out := s.mustKubectl(t, "", "version"); strings.Count(out, want[kubernetes]) != 2 {
			t.Errorf("want %s of client and server, got %s", want[kubernetes], out)
		}
	})
}
