//! Boots an image without AWS: QEMU's Nitro machine, a vsock device, and firmware.

use super::Parts;
use super::source::{self, Package, Pinned};
use crate::servers::Signals;
use crate::steps::Steps;
use crate::{needs, paths, process};
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Boot an image in the emulator
#[derive(clap::Args)]
pub(crate) struct RunOptions {
    /// The image [default: what `cargo xtask image build` made]
    image: Option<PathBuf>,
    /// Unix socket to make, for `host-proxy --enclave hybrid:SOCKET:5005`
    #[arg(long, value_name = "PATH")]
    socket: PathBuf,
    /// Memory in MiB
    #[arg(long, value_name = "MIB", default_value_t = 1024)]
    memory: u32,
}

const QEMU: &str = "qemu-system-x86_64";
const VSOCK: &str = "vhost-device-vsock";
/// The second is not used to boot an image, but QEMU complains on the console where it is missing.
const FIRMWARE: [&str; 2] = ["qboot.rom", "linuxboot_dma.bin"];

/// The first with the Nitro machine is 9.2; Debian's own binaries leave it out.
const SOURCE: Package = Package {
    name: "qemu",
    version: "1:10.0.13+ds-0+deb13u1",
    suite: "trixie",
    source: true,
    files: &[
        Pinned {
            file: "qemu_10.0.13+ds-0+deb13u1.dsc",
            sha256: "a426c892e5369058c3423816c8625bc8010bb5a58ece57261f62b64ee4d765ad",
        },
        Pinned {
            file: "qemu_10.0.13+ds.orig.tar.xz",
            sha256: "6a0888e806c2ffc0c5f0733e974f9aea55491950d3c47c98669c8b236dde59ae",
        },
        Pinned {
            file: "qemu_10.0.13+ds-0+deb13u1.debian.tar.xz",
            sha256: "da73c092f5684c551b0334d675eb16a3dec91e1edea94759cfb1102fa4a0364e",
        },
    ],
};
/// QEMU's own build system wants this one, which Debian's tarball leaves out.
const MESON: &str =
    "meson==1.5.0 --hash=sha256:52b34f4903b882df52ad0d533146d4b992c018ea77399f825579737672ae7b20\n";
/// cargo verifies it and, by its lock file, what it depends on.
const VSOCK_VERSION: &str = "0.3.0";
/// The machine, its NSM, and nothing else.
const CONFIGURE: [&str; 13] = [
    "--target-list=x86_64-softmmu",
    "--without-default-features",
    "--without-default-devices",
    "--with-devices-x86_64=nitro",
    "--enable-system",
    "--enable-tcg",
    "--enable-gnutls",
    "--enable-libcbor",
    "--enable-vhost-user",
    "--enable-fdt=system",
    "--disable-docs",
    "--disable-tools",
    "--disable-guest-agent",
];

fn qemu_recipe() -> String {
    let pins: String = SOURCE.files.iter().map(|pinned| pinned.sha256).collect();
    format!("{pins}\n{MESON}{CONFIGURE:?}")
}

fn vsock_recipe() -> String {
    format!("{VSOCK} {VSOCK_VERSION}")
}

/// Firmware is whatever Debian's `qemu-system-data` holds: QEMU measures the image before it runs.
const FIRMWARE_RECIPE: &str = "qemu-system-data";
const FIRMWARE_IN_DEBIAN: &str = "/usr/share/qemu";

/// Which of the parts are not there.
pub(super) fn missing(parts: &Parts) -> Vec<&'static str> {
    let built = [(QEMU, qemu_recipe()), (VSOCK, vsock_recipe())];
    let firmware = FIRMWARE.map(|part| (part, FIRMWARE_RECIPE.to_owned()));
    built
        .into_iter()
        .chain(firmware)
        .filter(|(part, recipe)| !parts.has(part, recipe))
        .map(|(part, _)| part)
        .collect()
}

/// Builds what is missing.
pub(crate) fn run(signals: &Signals) -> Result<()> {
    super::only_linux()?;
    let parts = Parts::find()?;
    for part in missing(&parts) {
        match part {
            QEMU => qemu(&parts, signals),
            VSOCK => vsock(&parts, signals),
            _ => firmware(&parts, part),
        }
        .with_context(|| format!("the emulator lacks {part}"))?;
    }
    println!("the emulator is there: {}", parts.folder().display());
    Ok(())
}

/// Boots one image; returns when it ends or a signal comes, which the emulator hears too.
pub(crate) fn boot(options: &RunOptions, signals: &Signals) -> Result<()> {
    run(signals)?;
    let image = match &options.image {
        Some(image) => image.clone(),
        None => super::build::default_out()?,
    };
    ensure!(
        image.is_file(),
        "there is no image {}; build one with: cargo xtask image build",
        image.display()
    );
    process::run(
        process::cargo(&["run", "--quiet", "--profile=xtask"])
            .args(["--package=enclave-emulator", "--"])
            .arg(&image)
            .arg("--socket")
            .arg(&options.socket)
            .args(["--memory", &options.memory.to_string()]),
    )
}

fn firmware(parts: &Parts, part: &str) -> Result<()> {
    let file = Path::new(FIRMWARE_IN_DEBIAN).join(part);
    needs::debian_file(&file.to_string_lossy(), "qemu-system-data")?;
    parts.take(part, FIRMWARE_RECIPE, &file)
}

fn vsock(parts: &Parts, signals: &Signals) -> Result<()> {
    let work = parts.workshop("vsock")?;
    let mut install = process::cargo(&["install", "--locked", VSOCK, "--version"]);
    install
        .arg(format!("={VSOCK_VERSION}"))
        .arg("--root")
        .arg(&work);
    Steps::new(1, signals).watch(
        "vhost-device-vsock",
        &mut install,
        &paths::target()?.join("clearseal/vsock.log"),
    )?;
    parts.take(VSOCK, &vsock_recipe(), &work.join("bin").join(VSOCK))?;
    clear(&work)
}

fn qemu(parts: &Parts, signals: &Signals) -> Result<()> {
    for (program, package) in [
        ("gcc", "gcc"),
        ("ninja", "ninja-build"),
        ("pkg-config", "pkg-config"),
        ("flex", "flex"),
        ("bison", "bison"),
        ("dpkg-source", "dpkg-dev"),
        ("xz", "xz-utils"),
    ] {
        needs::debian(program, package)?;
    }
    for (file, package) in [
        ("/usr/include/glib-2.0/glib.h", "libglib2.0-dev"),
        ("/usr/include/gnutls/gnutls.h", "libgnutls28-dev"),
        ("/usr/include/cbor.h", "libcbor-dev"),
        ("/usr/include/libfdt.h", "libfdt-dev"),
        ("/usr/include/zlib.h", "zlib1g-dev"),
    ] {
        needs::debian_file(file, package)?;
    }
    let mut steps = Steps::new(6, signals);
    let work = parts.workshop("qemu")?;
    let sources = parts.folder().with_file_name("source");
    source::fetch(&SOURCE, &sources, &mut steps)?;
    let log = paths::target()?.join("clearseal/qemu.log");
    let tree = work.join("qemu");
    let [dsc, ..] = SOURCE.files else {
        bail!("the source package has no description");
    };
    let mut unpack = Command::new("dpkg-source");
    unpack
        .args(["--no-check", "-x"])
        .arg(sources.join(dsc.file))
        .arg(&tree);
    steps.watch("Unpack QEMU's source", &mut unpack, &log)?;
    steps.quick("Prepare", || prepare(&tree))?;
    let mut meson = Command::new("python3");
    meson
        .args(["-m", "pip", "download", "--quiet", "--no-deps"])
        .args(["--require-hashes", "-r", "requirements.txt", "-d", "wheels"])
        .current_dir(tree.join("python"));
    steps.watch("Meson, for QEMU's build", &mut meson, &log)?;
    let build = tree.join("build");
    fs::create_dir(&build).with_context(|| format!("cannot make {}", build.display()))?;
    let mut configure = Command::new("../configure");
    configure
        .args(CONFIGURE)
        .arg("--disable-install-blobs")
        .current_dir(&build);
    steps.watch("Configure QEMU", &mut configure, &log)?;
    let mut ninja = Command::new("ninja");
    ninja.arg(QEMU).current_dir(&build);
    steps.watch("Build QEMU", &mut ninja, &log)?;
    let built = build.join(QEMU);
    process::run(Command::new("strip").arg(&built))?;
    parts.take(QEMU, &qemu_recipe(), &built)?;
    clear(&work)
}

/// Packages that a build without Debian's packaging needs.
fn prepare(tree: &Path) -> Result<String> {
    // The tarball has no firmware, and its tests' helper is not needed.
    for (file, line, instead) in [
        ("meson.build", "subdir('pc-bios')", "roms = []"),
        ("pythondeps.toml", "pycotap", "#"),
    ] {
        let path = tree.join(file);
        let text =
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let lines: Vec<_> = text
            .lines()
            .map(|it| if it.starts_with(line) { instead } else { it })
            .collect();
        fs::write(&path, lines.join("\n") + "\n")?;
    }
    fs::write(
        tree.join("configs/devices/x86_64-softmmu/nitro.mak"),
        "CONFIG_NITRO_ENCLAVE=y\n",
    )?;
    fs::create_dir_all(tree.join("python/wheels"))?;
    fs::write(tree.join("python/requirements.txt"), MESON)?;
    drop(fs::remove_dir_all(tree.join("build")));
    Ok("done".to_owned())
}

fn clear(work: &Path) -> Result<()> {
    fs::remove_dir_all(work).with_context(|| format!("cannot clear {}", work.display()))
}
