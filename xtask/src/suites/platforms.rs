//! Platforms of developers other than Linux on x86-64: ARM, and macOS. Only the engine's kernels run here, by an
//! emulator of the processor.

use crate::needs;
use crate::process::{cargo, run};
use anyhow::Result;
use std::process::Command;

const ARM_LINUX: &str = "aarch64-unknown-linux-gnu";
const ARM_MAC: &str = "aarch64-apple-darwin";
const ARM_COMPILER: &str = "aarch64-linux-gnu-gcc";

/// Crates whose dependencies have no C to compile: Apple's compiler and headers cannot be had here.
const WITHOUT_C: [&str; 13] = [
    "attestation",
    "channel",
    "engine",
    "image",
    "intake",
    "key-policy",
    "key-release",
    "merkle",
    "protocol",
    "release",
    "sealed-model",
    "verifier-wasm",
    "witness",
];

pub(crate) fn test() -> Result<Option<String>> {
    needs::rust_target(ARM_MAC)?;
    let mut check = cargo(&["check", "--quiet", "--target", ARM_MAC]);
    for name in WITHOUT_C {
        check.args(["--package", name]);
    }
    run(&mut check)?;

    needs::rust_target(ARM_LINUX)?;
    let mut check = arm(&["check", "--quiet"]);
    for name in ["clearseal", "enclave-server", "host-proxy"] {
        check.args(["--package", name]);
    }
    run(&mut check)?;

    // NEON against the reference, with the emulator as the processor. Without Candle, which has nothing of ARM's to show, and
    // without the two tests that compute the same many times: they take minutes here, and are about threads.
    run(arm(&["test", "--quiet", "--lib"]).args([
        "--package=engine",
        "--no-default-features",
        "--",
        "--skip=determinism",
    ]))?;
    Ok(None)
}

/// `cargo` for ARM, with Debian's compiler for what is written in C and to link, and its emulator to run.
fn arm(arguments: &[&str]) -> Command {
    let mut command = cargo(arguments);
    command
        .args(["--target", ARM_LINUX])
        .env("CC_aarch64_unknown_linux_gnu", ARM_COMPILER)
        .env(
            "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER",
            ARM_COMPILER,
        )
        .env(
            "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER",
            "qemu-aarch64 -L /usr/aarch64-linux-gnu",
        );
    command
}
