package cli

// createLines are command lines of virtctl's help and of KubeVirt's user guide (v1.9), with 'virtctl' taken away. want is a merge patch of createBase,
// the spec of 'create vm' without flags.
const createBase = `{runStrategy: Always, template: {spec: {terminationGracePeriodSeconds: 180, domain: {memory: {guest: 512Mi}, devices: {}}}}}`

// inferred is what both matchers get from a volume that the user did not name.
func inferred(volume string) string {
	return "instancetype: {inferFromVolume: " + volume + ", inferFromVolumeFailurePolicy: Ignore}, " +
		"preference: {inferFromVolume: " + volume + ", inferFromVolumeFailurePolicy: Ignore}"
}

// importedDisk is a data volume of this source with its volume.
func importedDisk(name, source string) string {
	return "dataVolumeTemplates: [{metadata: {name: " + name + "}, spec: {" + source + "}}], template: {spec: {volumes: [{name: " + name +
		", dataVolume: {name: " + name + "}}]}}"
}

// cloudInitWith is a volume of cloud-init with this user data, which has its line breaks as '\n'.
func cloudInitWith(userData string) string {
	return `template: {spec: {volumes: [{name: cloudinitdisk, cloudInitNoCloud: {userData: "#cloud-config` + userData + `"}}]}}`
}

const manageSSH = `\nruncmd:\n  - [ setsebool, -P, 'virt_qemu_ga_manage_ssh', 'on' ]`

var createLines = []struct{ line, want string }{
	{"create vm", ""},
	{"create vm --run-strategy=Always", ""},
	{"create vm --run-strategy=halted --termination-grace-period=30", "runStrategy: Halted, template: {spec: {terminationGracePeriodSeconds: 30}}"},
	{"create vm --instancetype=my-instancetype", "instancetype: {name: my-instancetype}, template: {spec: {domain: {memory: null}}}"},
	{"create vm --instancetype=virtualmachineinstancetype/my-instancetype",
		"instancetype: {name: my-instancetype, kind: virtualmachineinstancetype}, template: {spec: {domain: {memory: null}}}"},
	{"create vm --preference=my-preference", "preference: {name: my-preference}"},
	{"create vm --preference=virtualmachinepreference/my-preference", "preference: {name: my-preference, kind: virtualmachinepreference}"},
	{"create vm --memory=1Gi --volume-containerdisk=src:my.registry/my-image:my-tag",
		`template: {spec: {domain: {memory: {guest: 1Gi}}, volumes: [{name: my-vm-containerdisk-0, containerDisk: {image: "my.registry/my-image:my-tag"}}]}}`},
	{"create vm --volume-import=type:ds,src:my-ns/my-ds,size:50Gi,name:root", inferred("root") + ", " +
		importedDisk("root", "sourceRef: {kind: DataSource, namespace: my-ns, name: my-ds}, storage: {resources: {requests: {storage: 50Gi}}}")},
	{"create vm --volume-import=type:ds,src:my-annotated-ds,name:root --infer-instancetype --infer-preference",
		"instancetype: {inferFromVolume: root}, preference: {inferFromVolume: root}, " +
			"dataVolumeTemplates: [{metadata: {name: root}, spec: {sourceRef: {kind: DataSource, name: my-annotated-ds}, storage: {}}}], " +
			"template: {spec: {domain: {memory: null}, volumes: [{name: root, dataVolume: {name: root}}]}}"},
	{"create vm --volume-containerdisk=src:my.registry/my-image:my-tag --volume-import=type:ds,src:my-ds,bootorder:1,name:root", inferred("root") + ", " +
		"dataVolumeTemplates: [{metadata: {name: root}, spec: {sourceRef: {kind: DataSource, name: my-ds}, storage: {}}}], " +
		"template: {spec: {domain: {devices: {disks: [{name: root, bootOrder: 1}]}}, volumes: " +
		`[{name: my-vm-containerdisk-0, containerDisk: {image: "my.registry/my-image:my-tag"}}, {name: root, dataVolume: {name: root}}]}}`},
	{"create vm --volume-import=type:ds,src:my-ds,name:root --volume-pvc=src:my-pvc --infer-instancetype-from=root --infer-preference-from=my-pvc",
		"instancetype: {inferFromVolume: root}, preference: {inferFromVolume: my-pvc}, " +
			"dataVolumeTemplates: [{metadata: {name: root}, spec: {sourceRef: {kind: DataSource, name: my-ds}, storage: {}}}], " +
			"template: {spec: {domain: {memory: null}, " +
			"volumes: [{name: my-pvc, persistentVolumeClaim: {claimName: my-pvc}}, {name: root, dataVolume: {name: root}}]}}"},
	{"create vm --volume-import=type:pvc,src:my-ns/my-pvc,name:root", inferred("root") + ", " +
		importedDisk("root", "source: {pvc: {namespace: my-ns, name: my-pvc}}, storage: {}")},
	{"create vm --volume-import=type:snapshot,src:my-ns/my-snapshot,name:root,size:10Gi", inferred("root") + ", " +
		importedDisk("root", "source: {snapshot: {namespace: my-ns, name: my-snapshot}}, storage: {resources: {requests: {storage: 10Gi}}}")},
	{"create vm --volume-pvc=src:my-pvc", inferred("my-pvc") + ", template: {spec: {volumes: [{name: my-pvc, persistentVolumeClaim: {claimName: my-pvc}}]}}"},
	{"create vm --volume-pvc=src:my-pvc,name:root,bootorder:2 --infer-instancetype=false --infer-preference=false",
		"template: {spec: {domain: {devices: {disks: [{name: root, bootOrder: 2}]}}, volumes: [{name: root, persistentVolumeClaim: {claimName: my-pvc}}]}}"},
	{"create vm --instancetype=i --preference=p --volume-import=type:blank,size:50Gi,name:data",
		"instancetype: {name: i}, preference: {name: p}, dataVolumeTemplates: " +
			"[{metadata: {name: data}, spec: {source: {blank: {}}, storage: {resources: {requests: {storage: 50Gi}}}}}], " +
			"template: {spec: {domain: {memory: null}, volumes: [{name: data, dataVolume: {name: data}}]}}"},
	{"create vm --volume-blank=size:1Gi,name:data --volume-clone-pvc=src:ns/c,name:c --volume-datasource=src:ns/d,name:d", "" +
		"dataVolumeTemplates: [{metadata: {name: data}, spec: {source: {blank: {}}, storage: {resources: {requests: {storage: 1Gi}}}}}, " +
		"{metadata: {name: c}, spec: {source: {pvc: {namespace: ns, name: c}}, storage: {}}}, " +
		"{metadata: {name: d}, spec: {sourceRef: {kind: DataSource, namespace: ns, name: d}, storage: {}}}], template: {spec: {volumes: " +
		"[{name: data, dataVolume: {name: data}}, {name: c, dataVolume: {name: c}}, {name: d, dataVolume: {name: d}}]}}"},
	{"create vm --volume-import=type:http,url:https://my.site/disk.img,size:10Gi,name:h,certconfigmap:ca,extraheaders:A=1;B=2", importedDisk("h",
		`source: {http: {url: "https://my.site/disk.img", certConfigMap: ca, extraHeaders: [A=1, B=2]}}, storage: {resources: {requests: {storage: 10Gi}}}`)},
	{"create vm --volume-import=type:registry,url:docker://my.registry/disk,pullmethod:node,size:10Gi,name:r", inferred("r") + ", " + importedDisk("r",
		`source: {registry: {url: "docker://my.registry/disk", pullMethod: node}}, storage: {resources: {requests: {storage: 10Gi}}}`)},
	{"create vm --volume-import=type:s3,url:s3://b/o,secretref:s,size:10Gi,name:s", importedDisk("s",
		`source: {s3: {url: "s3://b/o", secretRef: s}}, storage: {resources: {requests: {storage: 10Gi}}}`)},
	{"create vm --volume-import=type:gcs,url:gs://b/o,size:10Gi,name:g", importedDisk("g",
		`source: {gcs: {url: "gs://b/o"}}, storage: {resources: {requests: {storage: 10Gi}}}`)},
	{"create vm --volume-import=type:imageio,url:https://e,diskid:1,secretref:s,size:10Gi,name:i", importedDisk("i",
		`source: {imageio: {url: "https://e", diskId: "1", secretRef: s}}, storage: {resources: {requests: {storage: 10Gi}}}`)},
	{"create vm --volume-import=type:vddk,url:https://v,uuid:u,thumbprint:AA:BB,secretref:s,backingfile:f,size:10Gi,name:v", importedDisk("v",
		`source: {vddk: {url: "https://v", uuid: u, thumbprint: "AA:BB", secretRef: s, backingFile: f}}, storage: {resources: {requests: {storage: 10Gi}}}`)},
	{"create vm --user cloud-user --ssh-key=ssh-ed25519", cloudInitWith(`\nuser: cloud-user\nssh_authorized_keys:\n  - ssh-ed25519`)},
	{"create vm --user cloud-user --password-file=testdata/password", cloudInitWith(`\nuser: cloud-user\npassword: Kiln,42\nchpasswd: { expire: False }`)},
	{"create vm --user cloud-user --access-cred=type:ssh,src:my-keys", "template: {spec: {accessCredentials: [{sshPublicKey: {" +
		"source: {secret: {secretName: my-keys}}, propagationMethod: {qemuGuestAgent: {users: [cloud-user]}}}}], volumes: " +
		`[{name: cloudinitdisk, cloudInitNoCloud: {userData: "#cloud-config\nuser: cloud-user` + manageSSH + `"}}]}}`},
	{"create vm --access-cred=type:ssh,src:my-keys,user:myuser", "template: {spec: {accessCredentials: [{sshPublicKey: {" +
		"source: {secret: {secretName: my-keys}}, propagationMethod: {qemuGuestAgent: {users: [myuser]}}}}], volumes: " +
		`[{name: cloudinitdisk, cloudInitNoCloud: {userData: "#cloud-config` + manageSSH + `"}}]}}`},
	{"create vm --access-cred=type:ssh,src:my-keys,user:me --cloud-init-user-data I2Nsb3VkLWNvbmZpZw==", "template: {spec: {accessCredentials: " +
		"[{sshPublicKey: {source: {secret: {secretName: my-keys}}, propagationMethod: {qemuGuestAgent: {users: [me]}}}}], " +
		`volumes: [{name: cloudinitdisk, cloudInitNoCloud: {userDataBase64: "I2Nsb3VkLWNvbmZpZw=="}}]}}`},
	{"create vm --access-cred=type:ssh,src:my-keys,method:configdrive", "template: {spec: {accessCredentials: [{sshPublicKey: {" +
		"source: {secret: {secretName: my-keys}}, propagationMethod: {configDrive: {}}}}], volumes: " +
		`[{name: cloudinitdisk, cloudInitConfigDrive: {userData: "#cloud-config"}}]}}`},
	{"create vm --access-cred=type:password,src:my-pws", "template: {spec: {accessCredentials: [{userPassword: {" +
		"source: {secret: {secretName: my-pws}}, propagationMethod: {qemuGuestAgent: {}}}}]}}"},
	{"create vm --memory=1Gi --volume-containerdisk=src:i:t --volume-sysprep=src:my-cm", "template: {spec: {domain: {memory: {guest: 1Gi}}, volumes: " +
		`[{name: my-vm-containerdisk-0, containerDisk: {image: "i:t"}}, {name: sysprepdisk, sysprep: {configMap: {name: my-cm}}}]}}`},
	{"create vm --volume-sysprep=src:my-secret,type:secret", "template: {spec: {volumes: [{name: sysprepdisk, sysprep: {secret: {name: my-secret}}}]}}"},
	{"create vm --cloud-init-user-data I2Nsb3VkLWNvbmZpZw== --cloud-init-network-data bg==", "template: {spec: {volumes: " +
		`[{name: cloudinitdisk, cloudInitNoCloud: {userDataBase64: "I2Nsb3VkLWNvbmZpZw==", networkDataBase64: "bg=="}}]}}`},
	{"create vm --cloud-init none --user me", ""},
}
