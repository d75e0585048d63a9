package pods

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// keyPair is an SSH key of a user or of a host.
type keyPair struct {
	ssh.Signer
	// private and public are the texts of the files id_ed25519 and id_ed25519.pub.
	private, public string
}

func newKeyPair(t *testing.T) keyPair {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		t.Fatal(err)
	}
	return keyPair{signer, string(pem.EncodeToMemory(block)), strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signer.PublicKey())))}
}

// loginTimeout bounds one login and one command in an emulated guest. The first login waits for the other work of the guest's start.
const loginTimeout = 5 * time.Minute

// sshServer is the SSH server of a guest.
type sshServer struct {
	// address has a port.
	address string
	host    ssh.PublicKey
}

// runAs logs in as a user, runs a command, and returns what it printed to both outputs.
func (s sshServer) runAs(ctx context.Context, user string, by ssh.AuthMethod, command string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, loginTimeout)
	defer cancel()
	connection, err := shared.Dial(ctx, "tcp", s.address)
	if err != nil {
		return "", err
	}
	defer connection.Close()
	defer context.AfterFunc(ctx, func() { _ = connection.SetDeadline(time.Now()) })()
	config := &ssh.ClientConfig{User: user, Auth: []ssh.AuthMethod{by}, HostKeyCallback: ssh.FixedHostKey(s.host)}
	secured, channels, requests, err := ssh.NewClientConn(connection, s.address, config)
	if err != nil {
		return "", err
	}
	client := ssh.NewClient(secured, channels, requests)
	defer client.Close()
	session, err := client.NewSession()
	if err != nil {
		return "", err
	}
	defer session.Close()
	out, err := session.CombinedOutput(command)
	return string(out), err
}

// sshServer returns the SSH server of a guest at the address of its pod.
func (n *tenant) sshServer(vmi string, host ssh.PublicKey) sshServer {
	n.Helper()
	return sshServer{net.JoinHostPort(n.kubectl("get", "pod", "guest-"+vmi, "-o", "jsonpath={.status.podIP}"), "22"), host}
}

// checkRefusal fails the test unless the server refuses a user for what he has shown.
func (n *tenant) checkRefusal(at sshServer, user string, by ssh.AuthMethod, what string) {
	n.Helper()
	if out, err := at.runAs(n.Context(), user, by, "id"); err == nil || !strings.Contains(err.Error(), "unable to authenticate") {
		n.Errorf("%s logs in as '%s': %s, %v", what, user, out, err)
	}
}

// mustRunAs returns what a command of a user prints, and fails the test if the login or the command does.
func (n *tenant) mustRunAs(at sshServer, user string, by ssh.AuthMethod, command string) string {
	n.Helper()
	out, err := at.runAs(n.Context(), user, by, command)
	if err != nil {
		n.Fatalf("'%s' as '%s': %v\n%s", command, user, err, out)
	}
	return out
}
