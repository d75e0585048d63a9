package e2e

import (
	"os"
	"strings"
	"testing"
)

// The rights of docs/how-to/catalog.md are enough, and one that is missing is noticed before anything is written.
func TestCatalogIsInstalledByItsRights(t *testing.T) {
	c := newCatalog(t)
	page, err := os.ReadFile("../../docs/how-to/catalog.md")
	if err != nil {
		t.Fatal(err)
	}
	_, role, found := strings.Cut(string(page), "<!-- TestCatalogIsInstalledByItsRights installs with these rights -->\n```yaml\n")
	role, _, ended := strings.Cut(role, "```")
	if !found || !ended {
		t.Fatal("docs/how-to/catalog.md has no rights")
	}
	account := "system:serviceaccount:" + c.space.name + ":installer"
	grant := func(suffix, verbs string) string {
		name := c.name + suffix
		c.must(c.kubectl(strings.NewReplacer("kiln-catalog-installer", name, "[list, create, patch, delete]", verbs).Replace(role), "apply", "-f", "-"))
		c.must(c.kubectl("", "create", "clusterrolebinding", name, "--clusterrole="+name, "--serviceaccount="+c.space.name+":installer"))
		t.Cleanup(func() { _ = c.kubectlAfter("delete", "clusterrolebinding,clusterrole", name) })
		return name
	}
	file := c.file("1.0.0", c.instancetype("small", "128Mi"), c.instancetype("used", "128Mi"))
	less := grant("-less", "[list, create, patch]")
	c.must(c.install(file, "--as", account))
	if result := c.kiln("catalog", "uninstall", c.name, "--as", account); c.status(result) != 1 || !strings.Contains(result.stderr, "cannot delete") ||
		c.has("small") != "active" {
		t.Errorf("without the right to delete: %s%s", result.stdout, result.stderr)
	}
	c.must(c.kubectl("", "delete", "clusterrolebinding", less))
	grant("", "[list, create, patch, delete]")
	c.create(vm("web", "{name: small}", "{name: "+c.of("used")+"}"))
	c.expect("with the rights of the page", c.kiln("catalog", "uninstall", c.name, "--as", account), "small: deleted", "used: obsolete; used by vm/SPACE/web",
		"catalog 'NAME': 1 obsolete, 1 deleted")
	if result := c.install(file, "--as", "nobody"); c.status(result) != 2 || !strings.Contains(result.stderr, "forbidden") {
		t.Errorf("without any right: %s", result.stderr)
	}
}
