//! An enclave that opens channels, simulated; each test file that shares it uses a part.
#![allow(dead_code, missing_docs, unreachable_pub)]
#![allow(clippy::unwrap_used)]

use attestation::{
    Aead, Evidence, HashScheme, Kem, ModelIdentity, Policy, SecurityMode, ServiceManifest,
    SignatureMemory, TrustAnchor, UnixMillis, VerifiedAttestation, manifest_binding,
};
use protocol::channel::{
    Accepted, Attested, AwaitingHello, AwaitingKey, ChannelError, ClientOptions, MonotonicMillis,
    Offer, Prepared, ReceivedHello, Session, begin,
};
use protocol::receipt::ReceiptSigner;
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;

pub const NOW: UnixMillis = UnixMillis(1_795_183_380_000);
pub const START: MonotonicMillis = MonotonicMillis(5_000);
pub const END: MonotonicMillis = MonotonicMillis(3_605_000);
pub const AES: &[Aead] = &[Aead::Aes256Gcm, Aead::ChaCha20Poly1305];
pub const CHACHA: &[Aead] = &[Aead::ChaCha20Poly1305, Aead::Aes256Gcm];

/// What an enclave-server does for a channel, in a few lines.
pub struct Enclave {
    pub issuer: forge::Issuer,
    pub signer: ReceiptSigner,
    pub policy: Policy,
}

impl Enclave {
    pub fn start(seed: u64) -> Self {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let signer = ReceiptSigner::generate(&mut rng);
        let root = forge::DevelopmentRoot::generate(&mut rng, NOW.0);
        let issuer = forge::Issuer::new(root, &mut rng, NOW.0);
        let root = TrustAnchor::development(issuer.root_der()).unwrap();
        let pcrs = forge::Contents::example().pcrs.into_iter();
        let manifest = manifest(&signer, Vec::new());
        let policy = Policy::for_development(
            root,
            pcrs.filter(|(index, _)| *index < 3).collect(),
            &manifest,
        )
        .unwrap();
        Self {
            issuer,
            signer,
            policy,
        }
    }

    /// Document and manifest for `nonce` and these keys.
    pub fn evidence(
        &mut self,
        nonce: &[u8; 32],
        configs: Vec<attestation::KeyConfig>,
    ) -> (Vec<u8>, Vec<u8>) {
        let manifest = manifest(&self.signer, configs);
        let bytes = manifest.encode().unwrap();
        let contents = forge::Contents {
            public_key: manifest.x25519_key().map(<[u8]>::to_vec),
            user_data: Some(manifest_binding(&bytes).to_vec()),
            nonce: Some(nonce.to_vec()),
            ..forge::Contents::example()
        };
        let mut rng = ChaCha20Rng::from_seed(*nonce);
        (self.issuer.document(&contents, NOW.0, &mut rng), bytes)
    }

    pub fn document(&mut self, prepared: Prepared) -> (Vec<u8>, AwaitingKey) {
        self.document_for(prepared, false)
    }

    pub fn document_for(&mut self, prepared: Prepared, wants: bool) -> (Vec<u8>, AwaitingKey) {
        let (document, manifest) = self.evidence(&prepared.nonce(), prepared.configs());
        prepared.document(
            Evidence {
                document: &document,
                manifest: &manifest,
            },
            wants,
        )
    }
}

fn manifest(signer: &ReceiptSigner, sealing_keys: Vec<attestation::KeyConfig>) -> ServiceManifest {
    ServiceManifest {
        version: 1,
        sealing_keys,
        receipt_key: signer.public_key(),
        model: ModelIdentity {
            id: "all-MiniLM-L6-v2".into(),
            version: "1".into(),
            sha256: [5; 32],
            hash_scheme: HashScheme::Sha256Manifest,
            dimension: 384,
            max_tokens: 256,
        },
        policy_version: "2026-11-01".into(),
        security_mode: SecurityMode::Evaluation,
        not_before: NOW.seconds() - 60,
        not_after: NOW.seconds() + 3_600,
    }
}

pub fn rng(seed: u64) -> ChaCha20Rng {
    ChaCha20Rng::seed_from_u64(seed)
}

pub fn options(kems: &'static [Kem]) -> ClientOptions<'static> {
    ClientOptions {
        kems,
        aeads: AES,
        ..ClientOptions::default()
    }
}

/// What a client does with a server hello.
pub fn judge(
    awaiting: AwaitingHello,
    server_hello: &[u8],
    policy: &Policy,
) -> Result<Attested, String> {
    let code = |error: ChannelError| error.code().to_owned();
    match awaiting.receive(server_hello).map_err(code)? {
        Offer::Documented(offer) => {
            let (report, judged) = offer.appraise(policy, NOW, &mut SignatureMemory::new());
            judged
                .including_simulated()
                .map_err(code)?
                .ok_or_else(|| report.code.unwrap())
        }
        Offer::Endorsed(offer) => offer.check(NOW).map_err(code),
    }
}

pub fn anonymous(arrived: Accepted) -> Session {
    match arrived {
        Accepted::Anonymous(session) => session,
        Accepted::WithEvidence(_) => panic!("evidence"),
    }
}

/// A whole handshake: client, server, and what the client verified.
pub fn connect(
    enclave: &mut Enclave,
    options: ClientOptions<'_>,
    server_aeads: &[Aead],
    seed: u64,
) -> (Session, Session, VerifiedAttestation) {
    let mut rng = rng(seed);
    let (hello, awaiting) = begin(options, &mut rng).unwrap();
    let arrival = ReceivedHello::read(&hello, server_aeads).unwrap();
    let endorses = arrival.known() == Some(&enclave.signer.public_key());
    let prepared = arrival.prepare(&mut rng);
    let (answer, awaiting_key) = match endorses {
        true => prepared.endorse(&enclave.signer, false).unwrap(),
        false => enclave.document(prepared),
    };
    let attested = judge(awaiting, &answer, &enclave.policy).unwrap();
    let verified = attested.attestation().clone();
    let (key, client) = attested.finish(START, &mut rng).unwrap();
    let server = anonymous(awaiting_key.receive(&key, START, END).unwrap());
    (client, server, verified)
}

/// A sealed frame as it crosses the wire.
pub fn frame(
    sender: &mut protocol::channel::Sender,
    kind: protocol::channel::frame::Kind,
    payload: &[u8],
) -> Vec<u8> {
    let mut out = Vec::new();
    sender.append(kind, payload, START, &mut out).unwrap();
    out
}

/// Opens a whole frame.
pub fn open(
    receiver: &mut protocol::channel::Receiver,
    frame: &[u8],
) -> Result<(protocol::channel::frame::Kind, Vec<u8>), ChannelError> {
    let (header, body) = frame
        .split_first_chunk::<16>()
        .ok_or(ChannelError::CutOff)?;
    let header = receiver.header(header)?;
    if body.len() < header.length() {
        return Err(ChannelError::CutOff);
    }
    let mut body = body.to_vec();
    let opened = receiver.open(&header, &mut body)?;
    Ok((opened.kind, opened.payload.to_vec()))
}

pub const BOTH: &[Kem] = &[Kem::XWing, Kem::X25519];
pub const CLASSIC: &[Kem] = &[Kem::X25519];

thread_local! {
    /// One enclave and one judged document a test: every further session is endorsed, which is quick.
    static KNOWN: std::cell::RefCell<(Enclave, VerifiedAttestation)> = {
        let mut enclave = Enclave::start(1);
        let (.., verified) = connect(&mut enclave, options(CLASSIC), AES, 0);
        std::cell::RefCell::new((enclave, verified))
    };
}

/// Both ends of a session with an endorsed key; the same ones for the same seed.
pub fn session(seed: u64) -> (Session, Session) {
    KNOWN.with_borrow_mut(|(enclave, verified)| {
        let options = ClientOptions {
            known: Some(verified),
            ..options(CLASSIC)
        };
        let (client, server, _) = connect(enclave, options, AES, seed);
        (client, server)
    })
}
