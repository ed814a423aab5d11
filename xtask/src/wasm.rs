//! `cargo xtask wasm`: verifier-wasm compiled, bound to JavaScript, and measured.

use crate::{paths, process};
use anyhow::{Context, Result, ensure};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use wasm_bindgen_cli_support::Bindgen;

const NAME: &str = "clearseal_verifier";
const TARGET: &str = "wasm32-unknown-unknown";

/// Build the npm package @clearseal/verifier: WebAssembly, bindings, TypeScript
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The trust policy that this build carries [default: $CLEARSEAL_TRUST_POLICY_FILE, else none]
    #[arg(long, value_name = "FILE", env = "CLEARSEAL_TRUST_POLICY_FILE")]
    pub(crate) policy: Option<PathBuf>,
}

/// Runs the verb.
pub(crate) fn run(options: &Options) -> Result<()> {
    println!("{}", build(options)?);
    Ok(())
}

/// Bytes of the module as shipped, raw and as a gzip transfer.
#[derive(Clone, Copy)]
pub(crate) struct Size {
    pub(crate) raw: usize,
    pub(crate) gzip: usize,
}

impl std::fmt::Display for Size {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kib = |bytes: usize| bytes.div_ceil(1024);
        write!(f, "{} KiB, {} KiB gzip", kib(self.raw), kib(self.gzip))
    }
}

/// The policy of the last build of this process, and the size of its module.
static LAST: Mutex<Option<(Option<String>, Size)>> = Mutex::new(None);

/// Builds what is not up to date; returns the module's size. A dozen suites ask for the same build: only the first one looks at the
/// sources.
pub(crate) fn build(options: &Options) -> Result<Size> {
    let policy = options.policy.as_deref().map(read_policy).transpose()?;
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((built, size)) = last.take()
        && built == policy
    {
        *last = Some((built, size));
        return Ok(size);
    }
    same_version()?;
    crate::needs::rust_target("wasm32-unknown-unknown")?;
    let compiled = compile(policy.as_deref())?;
    bind(&compiled, &package().join("pkg"))?;
    typescript(&package())?;
    let size = measure(&module())?;
    *last = Some((policy, size));
    Ok(size)
}

/// The text of a policy, in the form that is compiled in.
fn read_policy(file: &Path) -> Result<String> {
    let text = fs::read_to_string(file)
        .with_context(|| format!("cannot read the policy {}", file.display()))?;
    // An editor may have written a byte order mark.
    let json: serde_json::Value = serde_json::from_str(text.trim_start_matches('\u{feff}'))
        .with_context(|| format!("{} is not JSON", file.display()))?;
    Ok(json.to_string())
}

fn package() -> PathBuf {
    paths::root().join("verifier-wasm")
}

/// The module as shipped.
pub(crate) fn module() -> PathBuf {
    package().join("pkg").join(format!("{NAME}_bg.wasm"))
}

/// The bindings' generator and the crate inside the module speak one unversioned format: they must be one release.
fn same_version() -> Result<()> {
    let path = paths::root().join("Cargo.lock");
    let lock =
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let crate_version = locked(&lock, "wasm-bindgen");
    let generator = locked(&lock, "wasm-bindgen-cli-support");
    ensure!(
        crate_version.is_some() && crate_version == generator,
        "Cargo.lock has wasm-bindgen {} and wasm-bindgen-cli-support {}; make them equal: cargo update -p wasm-bindgen -p wasm-bindgen-cli-support",
        crate_version.unwrap_or("none"),
        generator.unwrap_or("none"),
    );
    Ok(())
}

fn locked<'a>(lock: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = lock.lines();
    lines.find(|line| *line == format!("name = \"{name}\""))?;
    lines
        .next()?
        .strip_prefix("version = \"")?
        .strip_suffix('"')
}

fn compile(policy: Option<&str>) -> Result<PathBuf> {
    let mut command = process::cargo(&[
        "build",
        "--quiet",
        "--package=verifier-wasm",
        "--target",
        TARGET,
        "--profile=wasm",
    ]);
    // Before every other source of flags, as those would change the module.
    command.env("CARGO_ENCODED_RUSTFLAGS", remap()?.join("\u{1f}"));
    // The policy is compiled in as text, so that cargo itself notices when it changes.
    match policy {
        Some(policy) => command.env("CLEARSEAL_TRUST_POLICY", policy),
        None => command.env_remove("CLEARSEAL_TRUST_POLICY"),
    };
    process::run(&mut command)?;
    let module = paths::target()?
        .join(TARGET)
        .join("wasm/verifier_wasm.wasm");
    ensure!(
        module.is_file(),
        "cargo made no {}; verifier-wasm must be a cdylib",
        module.display()
    );
    Ok(module)
}

/// Flags that leave out of panic messages where this machine keeps packages: the same sources give the same module
/// anywhere. The workspace's own paths are relative already.
fn remap() -> Result<Vec<String>> {
    let metadata = process::metadata(&["--filter-platform", TARGET])?;
    let packages = metadata["packages"]
        .as_array()
        .context("`cargo metadata` lists no packages")?;
    let folders: BTreeSet<_> = packages
        .iter()
        .filter(|package| !package["source"].is_null())
        .filter_map(|package| {
            Path::new(package["manifest_path"].as_str()?)
                .ancestors()
                .nth(2)
        })
        .collect();
    let flag = |folder: &Path| format!("--remap-path-prefix={}=", folder.display());
    Ok(folders.into_iter().map(flag).collect())
}

/// Generates the bindings into a fresh folder, then swaps it in; nothing is written when the module is the same.
fn bind(compiled: &Path, out: &Path) -> Result<()> {
    let stamp = base16ct::lower::encode_string(&Sha256::digest(fs::read(compiled)?));
    let stamp_file = out.join(".module-sha256");
    if fs::read_to_string(&stamp_file).is_ok_and(|known| known == stamp) {
        return Ok(());
    }
    let staged = out.with_extension("staged");
    if staged.exists() {
        fs::remove_dir_all(&staged)?;
    }
    Bindgen::new()
        .input_path(compiled)
        .out_name(NAME)
        .web(true)?
        .typescript(true)
        .remove_name_section(true)
        .remove_producers_section(true)
        .generate(&staged)
        .context("cannot generate the JavaScript bindings")?;
    fs::write(staged.join(".module-sha256"), stamp)?;
    if out.exists() {
        fs::remove_dir_all(out)?;
    }
    fs::rename(&staged, out).with_context(|| format!("cannot write {}", out.display()))
}

/// The package's own TypeScript, compiled when any source of it is newer than what was built.
fn typescript(package: &Path) -> Result<()> {
    let Ok(manifest) = fs::read(package.join("package.json")) else {
        return Ok(());
    };
    let manifest: serde_json::Value =
        serde_json::from_slice(&manifest).context("verifier-wasm/package.json is not JSON")?;
    if !manifest["scripts"]["build"].is_string() || !paths::root().join("node_modules").is_dir() {
        return Ok(());
    }
    process::run(&mut process::npm(&[
        "run",
        "--silent",
        "build",
        "--workspace=@clearseal/verifier",
    ]))
}

fn measure(module: &Path) -> Result<Size> {
    let bytes = fs::read(module).with_context(|| format!("cannot read {}", module.display()))?;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(&bytes)?;
    Ok(Size {
        raw: bytes.len(),
        gzip: encoder.finish()?.len(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_locked_version_is_that_of_the_exact_name() {
        let lock = "[[package]]\nname = \"wasm-bindgen-macro\"\nversion = \"9\"\n\n[[package]]\nname = \"wasm-bindgen\"\nversion = \"0.2.130\"\n";
        assert_eq!(locked(lock, "wasm-bindgen"), Some("0.2.130"));
        assert_eq!(locked(lock, "absent"), None);
    }
}
