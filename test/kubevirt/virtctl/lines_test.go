package virtctl

// lines are command lines of KubeVirt's user guide (creating_vms.md) that virtctl's help does not have, and one for each parameter of a flag that both
// name without an example.
var lines = []string{
	"create vm --instancetype my-instancetype --preference my-preference",
	"create vm --instancetype virtualmachineclusterinstancetype/my-instancetype --preference virtualmachinepreference/my-preference",
	"create vm --volume-import=type:pvc,src:my-ns/my-pvc-a,name:volume-a --volume-import=type:pvc,src:my-ns/my-pvc-b,name:volume-b " +
		"--infer-instancetype-from volume-b --infer-preference-from volume-b",
	"create vm --user myuser --access-cred=src:my-keys --ga-manage-ssh",
	"create vm --user myuser --access-cred=src:my-keys --ga-manage-ssh=false",
	"create vm --user myuser --access-cred=src:my-keys",
	"create vm --cloud-init-user-data I2Nsb3VkLWNvbmZpZwpzc2hfYXV0aG9yaXplZF9rZXlzOgogIC0gc3NoLXJzYSBBQUFBLi4uCg==",
	"create vm --run-strategy=Manual --termination-grace-period=123 --instancetype=u1.small --preference=fedora " +
		"--volume-containerdisk=src:registry.example/disks/fedora --volume-import=type:blank,size:1Gi --user=myuser --ssh-key='ssh-ed25519 AAAA...'",
	"create vm --name my-vm --instancetype=u1.small --preference=fedora --volume-containerdisk=src:registry.example/disks/fedora " +
		"--volume-import=type:blank,size:1Gi --user=myuser --access-cred=src:my-keys",

	"create vm --run-strategy=halted --termination-grace-period=0 --namespace shop",
	"create vm -n shop --run-strategy=RerunOnFailure --memory 2Gi",
	"create vm --volume-pvc=src:my-pvc,name:root,bootorder:2 --volume-containerdisk=src:i:t,bootorder:1,name:first --infer-preference=false",
	"create vm --volume-pvc=src:my-pvc --infer-instancetype=false --infer-preference=false",
	"create vm --volume-pvc=src:my-pvc --memory 1Gi",
	"create vm --volume-blank=size:1Gi,name:b --volume-blank=size:2Gi,name:a --volume-clone-pvc=src:ns/c,name:c --volume-datasource=src:ns/d,name:d " +
		"--volume-import=type:pvc,src:ns/e,name:e --volume-pvc=src:f",
	"create vm --volume-import=type:snapshot,src:my-ns/my-snapshot,size:10Gi --volume-import=type:ds,src:other,name:other,bootorder:3",
	"create vm --volume-import='type:http,url:https://my.site/disk.img,size:10Gi,certconfigmap:ca,secretref:s,extraheaders:A=1;B=2,secretextraheaders:x;y'",
	"create vm --volume-import=type:registry,url:docker://my.registry/disk,pullmethod:node,size:10Gi,name:r,secretref:s,certconfigmap:ca",
	"create vm --volume-import=type:registry,imagestream:my-stream,pullmethod:pod,size:10Gi",
	"create vm --volume-import=type:s3,url:s3://b/o,secretref:s,certconfigmap:ca,size:10Gi",
	"create vm --volume-import=type:gcs,url:gs://b/o,secretref:s,size:10Gi",
	"create vm --volume-import=type:imageio,url:https://e,diskid:1,secretref:s,certconfigmap:ca,size:10Gi",
	"create vm --volume-import=type:vddk,url:https://v,uuid:u,thumbprint:AA:BB,secretref:s,backingfile:f,initimageurl:i,size:10Gi",
	"create vm --access-cred=type:ssh,src:my-keys,method:configdrive --access-cred=type:password,src:my-pws,method:ga",
	"create vm --access-cred=type:ssh,src:my-keys,method:nocloud",
	"create vm --access-cred=type:ssh,src:my-keys,user:me --cloud-init-user-data I2Nsb3VkLWNvbmZpZw==",
	"create vm --access-cred=type:ssh,src:my-keys,user:me --cloud-init none",
	"create vm --volume-sysprep=src:my-secret,type:secret",
	"create vm --cloud-init configdrive",
	"create vm --cloud-init configdrive --user me --ssh-key one --ssh-key two,three",
	"create vm --cloud-init none --user me",
	"create vm --cloud-init-network-data bg==",
}

// refused are command lines that both refuse: with a clear error, not with a manifest.
var refused = []string{
	"create vm --infer-instancetype --infer-preference", // the user guide has it, and no volume to infer from
	"create vm --volume-containerdisk=src:i:t --infer-preference",
	"create vm --volume-pvc=src:a --infer-instancetype-from=b",
	"create vm --memory 1Gi --instancetype i",
	"create vm --preference p --infer-preference",
	"create vm --run-strategy Sometimes",
	"create vm --memory much",
	"create vm --instancetype other/i",
	"create vm --volume-pvc=src:my-ns/my-pvc",
	"create vm --volume-pvc=src:a --volume-pvc=src:a",
	"create vm --volume-pvc=src:a,bootorder:1 --volume-pvc=src:b,bootorder:1",
	"create vm --volume-pvc=src:a,bootorder:0",
	"create vm --volume-pvc=src:a,name:cloudinitdisk --user me",
	"create vm --volume-import=type:blank",
	"create vm --volume-import=type:blank,size:large",
	"create vm --volume-import=type:pvc,src:no-namespace",
	"create vm --volume-import=type:registry,url:u,imagestream:i,size:1Gi",
	"create vm --volume-sysprep=src:ns/my-cm",
	"create vm --access-cred=type:ssh,src:my-keys",
	"create vm --access-cred=type:password,src:my-pws,user:me",
	"create vm --access-cred=src:my-keys,method:nocloud --cloud-init=configdrive",
	"create vm --cloud-init-user-data eA== --user me",
	"create vm --cloud-init floppy",
	"create vm --password-file=testdata/none",
}
