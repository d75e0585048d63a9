package main

import (
	"context"

	backupv1 "kubevirt.io/api/backup/v1alpha1"
	v1 "kubevirt.io/api/core/v1"
)

// ofVMI are the calls of a VirtualMachineInstance.
var ofVMI = map[string]known{
	"pause": plainCall(func(ctx context.Context, t target) error {
		return t.vmi().Pause(ctx, t.name, &v1.PauseOptions{DryRun: t.dryRun})
	}),
	"unpause": plainCall(func(ctx context.Context, t target) error {
		return t.vmi().Unpause(ctx, t.name, &v1.UnpauseOptions{DryRun: t.dryRun})
	}),
	"freeze":     {possibly, freezeGuest},
	"unfreeze":   plainCall(func(ctx context.Context, t target) error { return t.vmi().Unfreeze(ctx, t.name) }),
	"softreboot": plainCall(func(ctx context.Context, t target) error { return t.vmi().SoftReboot(ctx, t.name) }),
	"reset":      plainCall(func(ctx context.Context, t target) error { return t.vmi().Reset(ctx, t.name) }),
	"guestosinfo": callWithAnswer(func(ctx context.Context, t target) (v1.VirtualMachineInstanceGuestAgentInfo, error) {
		return t.vmi().GuestOsInfo(ctx, t.name)
	}),
	"userlist": callWithAnswer(func(ctx context.Context, t target) (v1.VirtualMachineInstanceGuestOSUserList, error) {
		return t.vmi().UserList(ctx, t.name)
	}),
	"filesystemlist": callWithAnswer(func(ctx context.Context, t target) (v1.VirtualMachineInstanceFileSystemList, error) {
		return t.vmi().FilesystemList(ctx, t.name)
	}),
	"screenshot": callWithAnswer(func(ctx context.Context, t target) ([]byte, error) {
		return t.vmi().Screenshot(ctx, t.name, &v1.ScreenshotOptions{})
	}),
	"backup": plainCall(func(ctx context.Context, t target) error {
		return t.vmi().Backup(ctx, t.name, &backupv1.BackupOptions{})
	}),
	"redefine-checkpoint": plainCall(func(ctx context.Context, t target) error {
		return t.vmi().RedefineCheckpoint(ctx, t.name, &backupv1.BackupCheckpoint{})
	}),
	"vmi-addvolume": callWithArgument(func(ctx context.Context, t target, claim string) error {
		return t.vmi().AddVolume(ctx, t.name, t.volumeOptions(claim))
	}),
	"vmi-removevolume": callWithArgument(func(ctx context.Context, t target, volume string) error {
		return t.vmi().RemoveVolume(ctx, t.name, &v1.RemoveVolumeOptions{Name: volume, DryRun: t.dryRun})
	}),
	"vmi-objectgraph": callWithAnswer(func(ctx context.Context, t target) (v1.ObjectGraphNode, error) {
		return t.vmi().ObjectGraph(ctx, t.name, &v1.ObjectGraphOptions{})
	}),
	"vmi-evacuate-cancel": plainCall(func(ctx context.Context, t target) error {
		return t.vmi().EvacuateCancel(ctx, t.name, &v1.EvacuateCancelOptions{DryRun: t.dryRun})
	}),
}

// ofSEV are the calls about a VMI's encrypted memory.
var ofSEV = map[string]known{
	"sev-fetchcertchain": callWithAnswer(func(ctx context.Context, t target) (v1.SEVPlatformInfo, error) {
		return t.vmi().SEVFetchCertChain(ctx, t.name)
	}),
	"sev-querylaunchmeasurement": callWithAnswer(func(ctx context.Context, t target) (v1.SEVMeasurementInfo, error) {
		return t.vmi().SEVQueryLaunchMeasurement(ctx, t.name)
	}),
	"sev-setupsession": plainCall(func(ctx context.Context, t target) error {
		return t.vmi().SEVSetupSession(ctx, t.name, &v1.SEVSessionOptions{})
	}),
	"sev-injectlaunchsecret": plainCall(func(ctx context.Context, t target) error {
		return t.vmi().SEVInjectLaunchSecret(ctx, t.name, &v1.SEVSecretOptions{})
	}),
}
