//! Files of a simulated key, made once for a development enclave.

use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicUsize;

use anyhow::{Context as _, Result, ensure};
use attestation::{Policy, TrustAnchor, UnixMillis};
use base16ct::lower::encode_string as hex;
use base64ct::{Base64, Encoding};
use forge::{DevelopmentRoot, SHARED_ROOT_MADE_AT};
use key_policy::{Deployment, KeyPolicy};
use rand_chacha::ChaCha20Rng;
use rand_core::{CryptoRng, SeedableRng};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha384};

use crate::decrypt::Simulator;
use crate::wrap::{Context, MasterKey};

/// The enclave that a key is for.
pub struct Enclave<'a> {
    /// The program that will simulate the module: its hash determines the registers.
    pub binary: &'a Path,
    /// Name of the model.
    pub model: &'a str,
    /// SHA-256 of its artifact set.
    pub sha256: &'a [u8; 32],
}

/// Makes a key, a data key under it, a root, and the policies, as files of a folder:
///
/// | file | content | used by |
/// | --- | --- | --- |
/// | `key.json` | the simulated key, its name and caller | the simulator |
/// | `policy.json` | the key's policy, as `clearseal policy kms` writes it | the simulator |
/// | `trust-policy.json` | the trust policy that it was made from | `clearseal verify kms-policy` |
/// | `root.seed` | seed of the development root, 64 hex digits | a simulated module |
/// | `root.der` | its certificate | the simulator |
/// | `data-key` | 32 bytes | `clearseal model seal` |
/// | `data-key.wrapped` | the same, encrypted under the key: `CiphertextBlob` | host-proxy, next to the model |
///
/// # Errors
/// A file cannot be read or written.
pub fn create(
    folder: &Path,
    enclave: &Enclave<'_>,
    now: UnixMillis,
    rng: &mut impl CryptoRng,
) -> Result<()> {
    let mut random = || {
        let mut bytes = [0; 32];
        rng.fill_bytes(&mut bytes);
        bytes
    };
    let (seed, material, data_key, id) = (random(), random(), random(), random());
    let id = hex(&id[..16]);
    let arn = format!(
        "arn:aws:kms:dev-local-1:000000000000:key/{}-{}-{}-{}-{}",
        &id[..8],
        &id[8..12],
        &id[12..16],
        &id[16..20],
        &id[20..]
    );

    let root = shared_root(&seed);
    let binary = fs::read(enclave.binary)
        .with_context(|| format!("cannot read {}", enclave.binary.display()))?;
    let registers = forge::simulated_registers(&Sha384::digest(&binary).into(), enclave.sha256);
    let pcrs: Map<_, _> = [0, 1, 2]
        .into_iter()
        .filter_map(|index| Some((index, registers.get(&index)?)))
        .map(|(index, value)| (index.to_string(), hex(value).into()))
        .collect();
    let trust = json!({
        "format": "clearseal-trust-policy/1",
        "name": "simulated KMS",
        "root": { "development": Base64::encode_string(root.certificate_der()) },
        "releases": [{ "name": "development", "pcrs": pcrs }],
        "model": { "id": enclave.model, "sha256": hex(enclave.sha256) },
    })
    .to_string();
    let policy = write_key_policy(&trust, now)?;
    let context = Context::from([
        ("clearseal-model".to_owned(), enclave.model.to_owned()),
        ("clearseal-version".to_owned(), hex(enclave.sha256)),
    ]);
    let wrapped = MasterKey::new(&material)
        .wrap(&data_key, &context, rng)
        .context("the data key cannot be wrapped")?;
    let key = serde_json::to_string_pretty(&KeyFile {
        warning: "simulated: anyone who reads this file has the key".to_owned(),
        arn,
        caller: CALLER.to_owned(),
        material: Base64::encode_string(&material),
    })?;

    fs::create_dir_all(folder)?;
    ensure!(
        !folder.join("key.json").exists(),
        "{} already holds a key, with which models may be sealed; name another folder",
        folder.display()
    );
    for (name, bytes) in [
        ("key.json", key.as_bytes()),
        ("policy.json", policy.as_bytes()),
        ("trust-policy.json", trust.as_bytes()),
        ("root.seed", hex(&seed).as_bytes()),
        ("root.der", root.certificate_der()),
        ("data-key", &data_key),
        ("data-key.wrapped", &wrapped),
    ] {
        write_private(&folder.join(name), bytes)?;
    }
    Ok(())
}

/// Replaces the policies of a folder by those that demand an image. `measurements` is the JSON that `cargo xtask image build`
/// writes next to the image. As with AWS, the key has to exist first, because the image names it.
///
/// # Errors
/// A file is missing or malformed.
pub fn put_policy(folder: &Path, measurements: &Path, now: UnixMillis) -> Result<()> {
    let read = |path: &Path| -> Result<Value> {
        let bytes = read_text(path)?;
        serde_json::from_slice(&bytes).with_context(|| format!("{} is malformed", path.display()))
    };
    let trust_path = folder.join("trust-policy.json");
    let mut trust = read(&trust_path)?;
    let image = read(measurements)?;
    let pcrs = image
        .get("pcrs")
        .with_context(|| format!("{} has no pcrs", measurements.display()))?;
    trust["releases"] = json!([{ "name": "image", "pcrs": pcrs }]);
    let trust = trust.to_string();
    let policy = write_key_policy(&trust, now)?;
    write_private(&folder.join("policy.json"), policy.as_bytes())?;
    write_private(&trust_path, trust.as_bytes())
}

/// Writes the policy of a key for the releases of a trust policy.
fn write_key_policy(trust: &str, now: UnixMillis) -> Result<String> {
    let trust = Policy::chosen_by_hand(trust.as_bytes())?;
    let deployment = Deployment {
        parent: CALLER,
        sealer: None,
        keeper: None,
    };
    Ok(key_policy::write(&trust, deployment, now)?)
}

impl Simulator {
    /// Opens a folder that [`create`] made.
    ///
    /// # Errors
    /// A file is missing or malformed.
    pub fn open(folder: &Path) -> Result<Self> {
        let read = |name: &str| read_text(&folder.join(name));
        let key: KeyFile =
            serde_json::from_slice(&read("key.json")?).context("key.json is malformed")?;
        let material = Base64::decode_vec(&key.material)?;
        ensure!(
            material.len() == 32,
            "the key in key.json does not have 32 bytes"
        );
        Ok(Self {
            arn: key.arn,
            caller: key.caller,
            key: MasterKey::new(&material.try_into().unwrap_or_default()),
            policy: KeyPolicy::parse(&read("policy.json")?)?,
            root: TrustAnchor::development(&read_file(&folder.join("root.der"))?)?,
            answered: AtomicUsize::new(0),
        })
    }
}

fn read_file(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Reads a text without its byte order mark, which some editors add.
fn read_text(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = read_file(path)?;
    if bytes.starts_with("\u{feff}".as_bytes()) {
        bytes.drain(..3);
    }
    Ok(bytes)
}

const CALLER: &str = "arn:aws:iam::000000000000:role/clearseal-parent";

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct KeyFile {
    warning: String,
    arn: String,
    caller: String,
    material: String,
}

fn shared_root(seed: &[u8; 32]) -> DevelopmentRoot {
    DevelopmentRoot::generate(&mut ChaCha20Rng::from_seed(*seed), SHARED_ROOT_MADE_AT)
}

/// Writes a file that only its owner can read.
fn write_private(path: &Path, bytes: &[u8]) -> Result<()> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options
        .open(path)
        .and_then(|mut file| file.write_all(bytes))
        .with_context(|| format!("cannot write {}", path.display()))
}
