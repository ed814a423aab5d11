//! Prerequisites of suites that a machine may lack. Installed where that is possible; where it is not, `npm test` says so at its
//! start.

use crate::process::{cargo, run};
use crate::{needs, paths, python};
use anyhow::{Context, Result, bail, ensure};
use std::path::PathBuf;

/// Version whose configuration `deny.toml` is written for.
const CARGO_DENY: &str = "0.20.2";

/// Something that a suite needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// `cargo deny`, of any version that is there.
    CargoDeny,
    /// RustSec's list of advisories, which lies on the network.
    Advisories,
    /// Counts instructions.
    Valgrind,
    /// A kernel and QEMU, which take some minutes to build: they are used where they are there, and never built for a suite.
    Emulator,
    /// Kubernetes' control plane, which takes long to build: the same.
    Cluster,
    /// A C compiler for ARM, and an emulator of its processor.
    Arm,
    /// Builds container images, and runs them without a daemon.
    Buildah,
    /// Debian's Firefox.
    Firefox,
    /// Debian's WebKitGTK with its WebDriver, and a display in memory.
    WebKit,
    /// Python with packages of its registry, which lies on the network the first time. Without it `examples` runs, and each
    /// example in Python is skipped and counted.
    Python,
    /// Go 1.26 or newer.
    Go,
    /// Vectors that others published. Without them a suite runs, and each test over them is skipped and counted.
    Vectors,
}

impl Need {
    /// Makes sure that it is there. The error says what is missing and how to get it.
    pub(crate) fn provide(self) -> Result<()> {
        match self {
            Self::CargoDeny => cargo_deny(),
            Self::Advisories => advisories(),
            Self::Valgrind => needs::debian("valgrind", "valgrind"),
            Self::Emulator => crate::image::is_provided(),
            Self::Cluster => crate::cluster::is_provided(),
            Self::Arm => {
                needs::debian("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu")?;
                let header = "/usr/aarch64-linux-gnu/include/stdio.h";
                needs::debian_file(header, "libc6-dev-arm64-cross")?;
                needs::debian("qemu-aarch64", "qemu-user")
            }
            Self::Buildah => {
                ensure!(
                    needs::output("id", &["-u"])? == "0",
                    "containers are built and run by root alone here"
                );
                needs::debian("buildah", "buildah")
            }
            Self::Firefox => needs::debian("firefox-esr", "firefox-esr"),
            Self::WebKit => {
                needs::debian("WebKitWebDriver", "webkit2gtk-driver")?;
                needs::debian("Xvfb", "xvfb")
            }
            Self::Python => python::environment().map(drop),
            Self::Go => super::go::is_provided(),
            Self::Vectors => vectors(),
        }
    }

    /// Whether a suite is skipped as a whole where this is missing.
    pub(crate) fn decides(self) -> bool {
        !matches!(self, Self::Python | Self::Vectors)
    }
}

fn has_cargo_deny() -> bool {
    let version = cargo(&["deny", "--version"]).output();
    version.is_ok_and(|output| output.status.success())
}

fn cargo_deny() -> Result<()> {
    if has_cargo_deny() {
        return Ok(());
    }
    println!("installing cargo-deny, once; this takes a minute or two");
    // It runs for seconds: optimising it would take longer than all of its work.
    let install = ["install", "--quiet", "--locked", "--debug", "cargo-deny"];
    run(cargo(&install)
        .arg(format!("--version={CARGO_DENY}"))
        .env("CARGO_PROFILE_DEV_DEBUG", "0"))
    .context("cargo-deny is missing and cannot be installed")
}

fn advisories() -> Result<()> {
    ensure!(has_cargo_deny(), "cargo-deny is missing");
    let fetch = cargo(&["deny", "--log-level=off", "fetch", "db"])
        .output()
        .context("cannot run `cargo deny`")?;
    ensure!(
        fetch.status.success(),
        "RustSec's advisories cannot be fetched; run `cargo deny check advisories` where there is a network"
    );
    Ok(())
}

/// Where `forge::shared_vectors` looks too.
pub(super) fn vectors_folder() -> PathBuf {
    let default = paths::root().join("../shared/vectors");
    std::env::var_os("CLEARSEAL_VECTORS").map_or(default, PathBuf::from)
}

fn vectors() -> Result<()> {
    let folder = vectors_folder();
    if !folder.is_dir() {
        bail!(
            "no published vectors at {}, so each test over them is skipped; CLEARSEAL_VECTORS names another folder",
            folder.display()
        );
    }
    Ok(())
}
