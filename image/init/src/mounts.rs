//! File systems of the enclave, all of them in memory.

use rustix::fs::{Mode, OFlags, open};
use rustix::mount::{MountFlags, mount};

use crate::InitError;

/// The application's root, in the second ramdisk.
const ROOT: &str = "/rootfs";

/// Mounts devices, and makes the console standard input, output and error.
pub(crate) fn early() -> Result<(), InitError> {
    // The kernel's built-in ramdisk contains the folder.
    mount("dev", "/dev", "devtmpfs", MountFlags::NOSUID, None)
        .map_err(InitError::step("mount /dev"))?;
    let console = open("/dev/console", OFlags::RDWR, Mode::empty())
        .map_err(InitError::step("open /dev/console"))?;
    rustix::stdio::dup2_stdin(&console)
        .and_then(|()| rustix::stdio::dup2_stdout(&console))
        .and_then(|()| rustix::stdio::dup2_stderr(&console))
        .map_err(InitError::step("use the console"))
}

/// Makes the application's folder the root, and mounts its file systems.
pub(crate) fn enter() -> Result<(), InitError> {
    let plain = MountFlags::NOSUID | MountFlags::NOEXEC;
    for (source, target, kind, flags) in [
        ("dev", "/rootfs/dev", "devtmpfs", plain),
        ("proc", "/rootfs/proc", "proc", plain | MountFlags::NODEV),
        (
            "sys",
            "/rootfs/sys",
            "sysfs",
            plain | MountFlags::NODEV | MountFlags::RDONLY,
        ),
        ("run", "/rootfs/run", "tmpfs", plain | MountFlags::NODEV),
        ("tmp", "/rootfs/tmp", "tmpfs", plain | MountFlags::NODEV),
    ] {
        mount(source, target, kind, flags, None).map_err(InitError::step(target))?;
    }
    rustix::process::chroot(ROOT).map_err(InitError::step("chroot"))?;
    rustix::process::chdir("/").map_err(InitError::step("chdir"))
}
