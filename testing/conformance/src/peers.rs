//! Public verifiers that the kit judges, each with a small adapter in `testing/conformance/adapters`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// One verifier.
pub struct Peer {
    /// Name in its registry.
    pub name: &'static str,
    /// Version that the adapter pins.
    pub version: &'static str,
    /// Its registry.
    pub registry: &'static str,
    /// The settings that its adapter uses, and what the verifier cannot check.
    pub settings: &'static str,
    /// Commands that install it, run in the adapter's folder.
    install: &'static [&'static [&'static str]],
    /// Folder of the adapter.
    folder: &'static str,
    /// Command that starts the adapter in its folder.
    run: &'static [&'static str],
}

/// All public verifiers.
pub const PEERS: &[Peer] = &[
    Peer {
        name: "nitrite",
        version: "v0.0.0-20211104000856",
        registry: "Go, github.com/hf/nitrite",
        settings: "`Verify` with the kit's root and time; no registers, nonce or age to ask for",
        install: &[&["go", "build", "-o", "adapter", "."]],
        folder: "nitrite",
        run: &["./adapter"],
    },
    Peer {
        name: "tee-verifier",
        version: "0.1.2",
        registry: "npm, @0xsequence/tee-verifier",
        settings: "chain, root fingerprint and signature of `SignedAttestation`, as its own `fetch` calls them, with the kit's root and time; registers and nonce only inside `fetch`, so not asked",
        install: &[&["npm", "ci", "--no-audit", "--no-fund"]],
        folder: "tee-verifier",
        run: &["node", "adapter.mjs"],
    },
    Peer {
        name: "epsilon-attestation-verifier",
        version: "1.1.0",
        registry: "PyPI",
        settings: "`verify_attestation` with the kit's root and expected registers, `allow_expired` off, its clock set to the kit's time; no nonce or age to ask for",
        install: &[
            &["python3", "-m", "venv", "target/venv"],
            &[
                "target/venv/bin/pip",
                "install",
                "--quiet",
                "--requirement",
                "requirements.txt",
            ],
        ],
        folder: "epsilon",
        run: &["target/venv/bin/python", "adapter.py"],
    },
    Peer {
        name: "attestation-doc-validation",
        version: "0.10.1",
        registry: "Rust",
        settings: "`validate_attestation_doc`, its clock set to the document's time; trusts AWS's root alone, so only documents under it are judged",
        install: &[&["cargo", "build", "--quiet", "--locked"]],
        folder: "rust",
        run: &["target/debug/attestation-doc-validation"],
    },
    Peer {
        name: "nitro_attest",
        version: "0.2.0",
        registry: "Rust",
        settings: "`parse_and_verify` at the document's time; trusts AWS's root alone, so only documents under it are judged",
        install: &[&["cargo", "build", "--quiet", "--locked"]],
        folder: "rust",
        run: &["target/debug/nitro_attest"],
    },
];

impl Peer {
    /// Installs the adapter's dependencies, and returns the command that starts it.
    ///
    /// # Errors
    /// If a command is missing or fails.
    pub fn prepare(&self) -> Result<Command> {
        let folder = adapters().join(self.folder);
        for words in self.install {
            let mut command = command(words, &folder)?;
            let status = command
                .status()
                .with_context(|| format!("cannot run `{}`", words.join(" ")))?;
            if !status.success() {
                bail!("`{}` failed in {}", words.join(" "), folder.display());
            }
        }
        command(self.run, &folder)
    }
}

fn command(words: &[&str], folder: &Path) -> Result<Command> {
    let (program, arguments) = words.split_first().context("no command")?;
    // A program of the adapter itself has a path relative to its folder.
    let program = match program.contains('/') {
        true => folder.join(program),
        false => PathBuf::from(program),
    };
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder);
    // Variables set by the runner's cargo must not affect another workspace.
    for variable in ["CARGO_MANIFEST_DIR", "CARGO_TARGET_DIR", "RUSTFLAGS"] {
        command.env_remove(variable);
    }
    Ok(command)
}

fn adapters() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("adapters")
}
