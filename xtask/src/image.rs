//! `cargo xtask image`: enclave images, what they are built from, and what boots them without AWS.

mod build;
mod emulator;
mod kernel;
mod parts;
mod reproduce;
mod source;

use crate::servers::Signals;
use crate::steps::Steps;
use anyhow::{Result, bail, ensure};

pub(crate) use build::{
    Options as BuildOptions, build, default_kernel as kernel, steps as build_steps,
};
pub(crate) use parts::Parts;

/// Build enclave images, their kernel, and the emulator that boots them
#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Build an image; prints what it measures
    Build(Box<build::Options>),
    /// Build the kernel, from Debian's source package; some minutes
    Kernel(kernel::Options),
    /// Build QEMU and its vsock device, from source; some minutes
    Emulator,
    /// Boot an image in the emulator; Ctrl-C ends it
    Run(emulator::RunOptions),
    /// Build the image in two folders from clean sources, and compare the files; two full builds
    Reproduce(reproduce::Options),
}

/// Runs the verb.
pub(crate) fn run(options: &Options) -> Result<()> {
    let signals = Signals::listen()?;
    match &options.verb {
        Verb::Build(options) => {
            let mut steps = Steps::new(build::steps(options), &signals);
            build(options, &mut steps)
        }
        Verb::Kernel(options) => kernel::run(options, &signals),
        Verb::Emulator => emulator::run(&signals),
        Verb::Run(options) => emulator::boot(options, &signals),
        Verb::Reproduce(options) => reproduce::run(options, &signals),
    }
}

/// Whether an image can be built and booted without building kernel or emulator first.
pub(crate) fn is_provided() -> Result<()> {
    let parts = Parts::find()?;
    let mut missing = emulator::missing(&parts);
    if !parts.has_kernel() {
        missing.push("the enclave's kernel");
    }
    ensure!(
        missing.is_empty(),
        "{} not built; `npm run test:enclave` builds what is missing, in about ten minutes",
        missing.join(", ")
    );
    Ok(())
}

/// Images are for the one machine that Nitro enclaves of this project run on.
fn only_linux() -> Result<()> {
    if cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return Ok(());
    }
    bail!("enclave images are built on Linux on x86-64 alone")
}
