use std::sync::Arc;

use p384::ecdsa::SigningKey;
use p384::elliptic_curve::Generate;
use rand_core::CryptoRng;
use sha2::{Digest, Sha384};

use crate::certificate::{CertificateSpec, Hash};
use crate::der;
use crate::document::{Contents, Forgery, Link};

const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;

/// Region of all simulated enclaves. Not a region of AWS.
const REGION: &str = "dev-local-1";

/// Properties of AWS's certificates on one level below the root: lifetime, backdating, and path length (`None` for a leaf,
/// which is not an issuer).
struct Level {
    life: u64,
    head_start: u64,
    path_length: Option<u8>,
}

impl Level {
    /// The level with `below` certificates below it: leaf, instance, zonal, regional; every higher level is regional too.
    const fn new(below: u8) -> Self {
        let (life, head_start) = match below {
            0 => (3 * HOUR, 0),
            1 => (DAY, HOUR),
            2 => (6 * DAY, DAY),
            _ => (20 * DAY, 2 * DAY),
        };
        Self {
            life,
            head_start,
            path_length: below.checked_sub(1),
        }
    }
}

/// Certificates in a genuine chain, root included.
pub const GENUINE_CHAIN: u8 = 5;

/// Creation time of a root that two processes create from one seed, in Unix milliseconds (2026-01-01), so that its certificate is
/// the same in both.
pub const SHARED_ROOT_MADE_AT: u64 = 1_767_225_600_000;

/// A development root, whose name states that it is not AWS's.
pub struct DevelopmentRoot {
    link: Link,
    der: Vec<u8>,
}

impl DevelopmentRoot {
    /// Generates a P-384 key and its certificate, valid for 30 years from a day before `now_millis` (Unix milliseconds).
    pub fn generate<R: CryptoRng + ?Sized>(rng: &mut R, now_millis: u64) -> Self {
        let key = SigningKey::generate_from_rng(rng);
        let name = der::name(&[
            (der::ORGANIZATION, "Clearseal"),
            (der::UNIT, "Development"),
            (der::COMMON_NAME, "Clearseal development root (not AWS)"),
        ]);
        let start = (now_millis / 1000).saturating_sub(DAY);
        let extensions = vec![
            basic_constraints(true, None),
            der::extension(
                der::SUBJECT_KEY_ID,
                false,
                &der::octet_string(&key_id(&key)),
            ),
            key_usage(true, 0x01, 0x86),
        ];
        let spec = certificate(
            rng,
            &key,
            name.clone(),
            name,
            (start, start + 30 * 365 * DAY),
            extensions,
        );
        let der = spec.sign(&key);
        Self {
            link: Link {
                spec,
                key: Arc::new(key),
                signed_by: 0,
            },
            der,
        }
    }

    /// The certificate, for a development policy.
    pub fn certificate_der(&self) -> &[u8] {
        &self.der
    }
}

/// The hypervisor of one simulated enclave, with a chain regional → zonal → instance → leaf under a [`DevelopmentRoot`].
pub struct Issuer {
    /// Certificates in the chain, root included.
    length: u8,
    links: Vec<Link>,
    ders: Vec<Vec<u8>>,
    ends: Vec<u64>,
    instance: String,
    module_id: String,
}

impl Issuer {
    /// Issues a chain as of `now_millis` (Unix milliseconds).
    pub fn new<R: CryptoRng + ?Sized>(root: DevelopmentRoot, rng: &mut R, now_millis: u64) -> Self {
        Self::with_chain_of(GENUINE_CHAIN, root, rng, now_millis)
    }

    /// Like [`new`](Self::new), with `length` certificates in the chain, root included: omits levels below the root, or adds
    /// regional ones. A chain has at least two certificates.
    pub fn with_chain_of<R: CryptoRng + ?Sized>(
        certificates: u8,
        root: DevelopmentRoot,
        rng: &mut R,
        now_millis: u64,
    ) -> Self {
        let instance = format!("i-0{}", hex(&random::<8, R>(rng)));
        let module_id = format!("{instance}-enc{}", hex(&random::<8, R>(rng)));
        let mut issuer = Self {
            length: certificates.max(2),
            links: vec![root.link],
            ders: vec![root.der],
            ends: vec![u64::MAX],
            instance,
            module_id,
        };
        issuer.renew(rng, now_millis);
        issuer
    }

    /// Name of the simulated enclave.
    pub fn module_id(&self) -> &str {
        &self.module_id
    }

    /// The root's certificate.
    pub fn root_der(&self) -> &[u8] {
        &self.ders[0]
    }

    /// Last second of the leaf, Unix seconds.
    pub fn leaf_not_after(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Issues new certificates, with new keys, for those that expire soon or, after the clock was set back, have not begun, and for all
    /// below them. Returns whether it issued any.
    ///
    /// [`document`](Self::document) calls this itself.
    pub fn renew<R: CryptoRng + ?Sized>(&mut self, rng: &mut R, now_millis: u64) -> bool {
        let now = now_millis / 1000;
        // Renewed at a sixth of the lifetime before the end, so that a document stays valid for at least half an hour.
        let keep = 1 + self
            .levels()
            .zip(&self.ends[1..])
            .take_while(|(level, end)| {
                let begin = end.saturating_sub(level.life);
                (begin..=end.saturating_sub(level.life / 6)).contains(&now)
            })
            .count();
        self.links.truncate(keep);
        self.ders.truncate(keep);
        self.ends.truncate(keep);
        for level in self.levels().skip(keep - 1) {
            self.issue(rng, &level, now);
        }
        keep < usize::from(self.length)
    }

    /// The levels below the root, from top to bottom.
    fn levels(&self) -> impl Iterator<Item = Level> + use<> {
        (0..self.length - 1).rev().map(Level::new)
    }

    /// Creates and signs a document as of `now_millis` (Unix milliseconds).
    pub fn document<R: CryptoRng + ?Sized>(
        &mut self,
        contents: &Contents,
        now_millis: u64,
        rng: &mut R,
    ) -> Vec<u8> {
        self.renew(rng, now_millis);
        let forgery = self.forge(contents, now_millis);
        forgery.build_with(&self.ders)
    }

    /// The same document in parts, each of which can be changed before it is built.
    pub fn forge(&self, contents: &Contents, now_millis: u64) -> Forgery {
        Forgery::new(
            self.links.clone(),
            contents.clone(),
            &self.module_id,
            now_millis,
        )
    }

    fn issue<R: CryptoRng + ?Sized>(&mut self, rng: &mut R, level: &Level, now: u64) {
        let id = hex(&random::<8, R>(rng));
        let common_name = match level.path_length {
            None => format!("{}.{REGION}.aws", self.module_id),
            Some(0) => format!("{}.{REGION}.aws.nitro-enclaves", self.instance),
            Some(1) => format!("{id}.zonal.{REGION}.aws.nitro-enclaves"),
            Some(_) => format!("{id}.{REGION}.aws.nitro-enclaves"),
        };
        let subject = der::name(&[
            (der::COUNTRY, "XX"),
            (der::ORGANIZATION, "Clearseal"),
            (der::UNIT, "Development"),
            (der::COMMON_NAME, &common_name),
        ]);
        let key = SigningKey::generate_from_rng(rng);
        let above = self.links.len() - 1;
        let issuer = &self.links[above];
        // AWS's extensions: issuers have identifiers and critical usage, the leaf has neither. Regional and zonal certificates
        // state where their issuers publish revocations.
        let mut extensions = match level.path_length {
            Some(path_length) => vec![
                basic_constraints(true, Some(path_length)),
                der::extension(
                    der::AUTHORITY_KEY_ID,
                    false,
                    &der::sequence(&[&der::tlv(0x80, &key_id(&issuer.key))]),
                ),
                der::extension(
                    der::SUBJECT_KEY_ID,
                    false,
                    &der::octet_string(&key_id(&key)),
                ),
                if path_length == 0 {
                    key_usage(true, 0x02, 0x04)
                } else {
                    key_usage(true, 0x01, 0x86)
                },
            ],
            None => vec![basic_constraints(false, None), key_usage(false, 0x06, 0xc0)],
        };
        if level.path_length.is_some_and(|length| length > 0) {
            let url = format!("http://crl.{REGION}.example/crl/{id}.crl");
            extensions.push(der::distribution_point(&url));
        }
        let start = now.saturating_sub(level.head_start);
        let end = start + level.life;
        let spec = certificate(
            rng,
            &key,
            issuer.spec.subject.clone(),
            subject,
            (start, end),
            extensions,
        );
        self.ders.push(spec.sign(&issuer.key));
        self.links.push(Link {
            spec,
            key: Arc::new(key),
            signed_by: above,
        });
        self.ends.push(end);
    }
}

/// Critical, as on every level of AWS's chain.
pub(crate) fn basic_constraints(ca: bool, path_length: Option<u8>) -> Vec<u8> {
    let ca: &[u8] = if ca { &[0x01, 0x01, 0xff] } else { &[] };
    let path_length = path_length.map_or(Vec::new(), |length| der::integer(&[length]));
    der::extension(
        der::BASIC_CONSTRAINTS,
        true,
        &der::sequence(&[ca, &path_length]),
    )
}

/// keyUsage with `bits` in one byte, of which the lowest `unused` bits are unused.
pub(crate) fn key_usage(critical: bool, unused: u8, bits: u8) -> Vec<u8> {
    der::extension(der::KEY_USAGE, critical, &der::tlv(0x03, &[unused, bits]))
}

fn certificate<R: CryptoRng + ?Sized>(
    rng: &mut R,
    key: &SigningKey,
    issuer: Vec<u8>,
    subject: Vec<u8>,
    (start, end): (u64, u64),
    extensions: Vec<Vec<u8>>,
) -> CertificateSpec {
    CertificateSpec {
        version: der::tlv(0xa0, &der::integer(&[2])),
        serial: der::integer(&random::<16, R>(rng)),
        inner_algorithm: der::ECDSA_SHA384.to_vec(),
        outer_algorithm: der::ECDSA_SHA384.to_vec(),
        issuer,
        not_before: der::time(start),
        not_after: der::time(end),
        subject,
        public_key: der::ec_public_key(der::P384, &point(key)),
        extensions,
        hash: Hash::Sha384,
        after_signing: None,
    }
}

fn point(key: &SigningKey) -> Vec<u8> {
    key.verifying_key().to_sec1_point(false).as_bytes().to_vec()
}

/// RFC 7093 §2, method 3: the first 160 bits of the key's SHA-384.
fn key_id(key: &SigningKey) -> Vec<u8> {
    Sha384::digest(point(key))[..20].to_vec()
}

fn random<const N: usize, R: CryptoRng + ?Sized>(rng: &mut R) -> [u8; N] {
    let mut bytes = [0; N];
    rng.fill_bytes(&mut bytes);
    bytes
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
