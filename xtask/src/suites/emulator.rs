//! Enclave images, booted in an emulated Nitro machine: from Rust, and from a real browser.

use crate::process::{cargo, npm, run};
use crate::{model, needs, page, paths, skipped, statics, wasm};
use anyhow::{Context, Result};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The images: a folder each, what runs in it, and what that is told.
const IMAGES: [(&str, Program, &[&str]); 3] = [
    // Asks the module everything, and serves what no client may accept.
    ("probe", Program::Probe, &[]),
    // The programs that would be released.
    ("plain", Program::Server, &[]),
    // The same, with a signature under a development root over the true measurements, and time for emulated inference.
    (
        "sign",
        Program::Server,
        &[
            "--argument=--simulate-nsm=sign",
            "--argument=--deadline=10m",
        ],
    ),
];

#[derive(Clone, Copy, PartialEq)]
enum Program {
    Server,
    Probe,
}

pub(crate) fn test() -> Result<Option<String>> {
    let folder = paths::model()?;
    println!("{}", model::fetch(None, &folder)?);
    statics::build_packages(&["enclave-probe"])?;
    for (name, program, options) in IMAGES {
        build(name, program, options, &folder)?;
    }
    statics::build()?;
    sealed(&folder)?;
    let images = images()?;
    let arguments = [
        "--package=enclave-emulator",
        "--features=booted",
        "--test=booted",
    ];
    run(cargo(&["test", "--quiet"])
        .args(arguments)
        .env("CLEARSEAL_IMAGES", &images)
        .env("CLEARSEAL_BIN_DIR", statics::folder()?)
        .env(skipped::VARIABLE, skipped::list()?))?;
    browser(&images, &folder)?;
    Ok(None)
}

fn images() -> Result<std::path::PathBuf> {
    Ok(paths::target()?.join("image/booted"))
}

/// The image whose model comes sealed from the host, and whose key a simulated KMS releases to it alone. The image names the
/// key, and the key's policy names the image: so the key is made first, and its policy put last.
fn sealed(model: &Path) -> Result<()> {
    let folder = images()?.join("sealed");
    let (kms, programs) = (folder.join("kms"), statics::folder()?);
    if kms.exists() {
        fs::remove_dir_all(&kms).with_context(|| format!("cannot replace {}", kms.display()))?;
    }
    let simulator = || Command::new(programs.join("kms-simulator"));
    run(simulator()
        .arg("new-key")
        .arg("--out")
        .arg(&kms)
        .arg("--enclave")
        .arg(programs.join("enclave-server"))
        .args(["--model", model::ID, "--seal"])
        .arg(model))?;
    let key: Value = serde_json::from_slice(&fs::read(kms.join("key.json"))?)?;
    let arn = key["arn"].as_str().context("the key has no name")?;
    let mut build = image_build("sealed")?;
    build
        .args([
            "--argument=--simulate-nsm=sign",
            "--argument=--deadline=10m",
        ])
        .args(["--argument=--parent=vsock:2:5006"])
        .arg(format!("--argument=--kms-key={arn}"))
        .arg("--argument=--simulated-root=/root.seed")
        .arg(format!(
            "--file=/root.seed={}",
            kms.join("root.seed").display()
        ));
    run(&mut build)?;
    run(simulator()
        .arg("put-policy")
        .arg("--key")
        .arg(&kms)
        .arg("--measurements")
        .arg(folder.join("measurements.json")))
}

fn image_build(name: &str) -> Result<Command> {
    // A separate process: its steps handle signals, which a suite leaves to the terminal.
    let this = std::env::current_exe().context("cannot find this program")?;
    let mut build = Command::new(this);
    build
        .args(["image", "build", "--out"])
        .arg(images()?.join(name).join("enclave.eif"));
    Ok(build)
}

fn build(name: &str, program: Program, options: &[&str], model: &Path) -> Result<()> {
    let mut build = image_build(name)?;
    build.args(options);
    if program == Program::Probe {
        let probe = statics::folder()?.join("enclave-probe");
        build.arg("--server").arg(probe);
    } else {
        build.arg("--embed-model").arg(model);
    }
    run(&mut build)
}

fn browser(images: &Path, model: &Path) -> Result<()> {
    needs::install_packages()?;
    needs::debian("chromium", "chromium")?;
    wasm::build(&wasm::Options { policy: None })?;
    page::build_now(page::Programs::Static)?;
    run(&mut cargo(&[
        "build",
        "--quiet",
        "--package=enclave-emulator",
    ]))?;
    run(npm(&["run", "test:enclave", "--workspace=playwright"])
        .env("CLEARSEAL_IMAGES", images)
        .env(
            "CLEARSEAL_EMULATOR",
            paths::target()?.join("debug/enclave-emulator"),
        )
        .env("CLEARSEAL_BIN_DIR", statics::folder()?)
        .env("CLEARSEAL_MODEL", model)
        .env(skipped::VARIABLE, skipped::list()?))
}
