package validate_test

import (
	"encoding/base64"
	"strings"
)

// encoded are as many bytes in base64.
func encoded(count int) string {
	return base64.StdEncoding.EncodeToString([]byte(strings.Repeat("u", count)))
}

var disksCloudInitCases = []testCase{
	{
		why:   "no data",
		rule:  "disks/cloudinit-empty",
		given: volume("cloudInitNoCloud: {}"),
		want:  required("spec.volumes[0].cloudInitNoCloud"),
	},
	{
		why:   "no data on a drive",
		rule:  "disks/cloudinit-empty",
		given: volume("cloudInitConfigDrive: {}"),
		want:  required("spec.volumes[0].cloudInitConfigDrive"),
	},
	{
		why:   "a Secret without a name",
		rule:  "disks/cloudinit-empty",
		given: volume("cloudInitNoCloud: {secretRef: {}}"),
		want:  required("spec.volumes[0].cloudInitNoCloud"),
	},
	{
		why:   "a Secret",
		rule:  "disks/cloudinit-empty",
		given: volume("cloudInitNoCloud: {secretRef: {name: s}}"),
	},
	{
		why:   "user data",
		rule:  "disks/cloudinit-empty",
		given: volume("cloudInitNoCloud: {userData: u}"),
	},
	{
		why:   "encoded user data",
		rule:  "disks/cloudinit-empty",
		given: volume("cloudInitNoCloud: {userDataBase64: dQ==}"),
	},
	{
		why:   "network data alone",
		rule:  "disks/cloudinit-empty",
		given: volume("cloudInitConfigDrive: {networkData: u}"),
	},
	{
		why:   "user data from two places",
		rule:  "disks/cloudinit-sources",
		given: volume("cloudInitNoCloud: {userData: u, userDataBase64: dQ==}"),
		want:  forbidden("spec.volumes[0].cloudInitNoCloud.userDataBase64"),
	},
	{
		why:   "user data from a Secret too",
		rule:  "disks/cloudinit-sources",
		given: volume("cloudInitNoCloud: {userData: u, secretRef: {name: s}}"),
		want:  forbidden("spec.volumes[0].cloudInitNoCloud.secretRef"),
	},
	{
		why:   "user data from three places",
		rule:  "disks/cloudinit-sources",
		given: volume("cloudInitNoCloud: {userData: u, userDataBase64: dQ==, secretRef: {name: s}}"),
		want:  forbidden("spec.volumes[0].cloudInitNoCloud.userDataBase64"),
	},
	{
		why:   "network data from two places",
		rule:  "disks/cloudinit-sources",
		given: volume("cloudInitConfigDrive: {networkDataBase64: dQ==, networkDataSecretRef: {name: s}}"),
		want:  forbidden("spec.volumes[0].cloudInitConfigDrive.networkDataSecretRef"),
	},
	{
		why:   "user data and network data",
		rule:  "disks/cloudinit-sources",
		given: volume("cloudInitNoCloud: {userData: u, networkData: u}"),
	},
	{
		why:   "user data and a Secret without a name",
		rule:  "disks/cloudinit-sources",
		given: volume("cloudInitNoCloud: {userData: u, secretRef: {}}"),
		// It is no second source, but the API server refuses the pod that mounts it.
		others: []string{"disks/volume-object"},
	},
	{
		why:   "plain text for encoded data",
		rule:  "disks/cloudinit-base64",
		given: volume("cloudInitNoCloud: {userDataBase64: '#cloud-config'}"),
		want:  invalid("spec.volumes[0].cloudInitNoCloud.userDataBase64"),
	},
	{
		why:   "plain text for encoded network data",
		rule:  "disks/cloudinit-base64",
		given: volume("cloudInitConfigDrive: {userData: u, networkDataBase64: '#'}"),
		want:  invalid("spec.volumes[0].cloudInitConfigDrive.networkDataBase64"),
	},
	{
		why:   "encoded data",
		rule:  "disks/cloudinit-base64",
		given: volume("cloudInitNoCloud: {userDataBase64: dQ==}"),
	},
	{
		why:   "2049 bytes",
		rule:  "disks/cloudinit-length",
		given: volume("cloudInitNoCloud: {userData: " + strings.Repeat("u", 2049) + "}"),
		want:  tooLong("spec.volumes[0].cloudInitNoCloud.userData"),
	},
	{
		why:   "2048 bytes",
		rule:  "disks/cloudinit-length",
		given: volume("cloudInitNoCloud: {userData: " + strings.Repeat("u", 2048) + "}"),
	},
	{
		why:   "2049 bytes once decoded",
		rule:  "disks/cloudinit-length",
		given: volume("cloudInitNoCloud: {networkDataBase64: " + encoded(2049) + "}"),
		want:  tooLong("spec.volumes[0].cloudInitNoCloud.networkDataBase64"),
	},
	{
		why:   "2048 bytes once decoded",
		rule:  "disks/cloudinit-length",
		given: volume("cloudInitNoCloud: {networkDataBase64: " + encoded(2048) + "}"),
	},
	{
		why:   "the longer of two is told",
		rule:  "disks/cloudinit-length",
		given: volume("cloudInitNoCloud: {userData: " + strings.Repeat("u", 2050) + ", userDataBase64: " + encoded(2049) + "}"),
		want:  tooLong("spec.volumes[0].cloudInitNoCloud.userData"),
	},
	{
		why:   "the first of two that are alike is told",
		rule:  "disks/cloudinit-length",
		given: volume("cloudInitNoCloud: {userData: " + strings.Repeat("u", 2049) + ", userDataBase64: " + encoded(2049) + "}"),
		want:  tooLong("spec.volumes[0].cloudInitNoCloud.userData"),
	},
}
