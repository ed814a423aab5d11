//! A service that simulates, before a client that was not told to accept that; and evidence that tries to paint.

#![allow(
    clippy::unwrap_used,
    reason = "a fixture that cannot be made is a failed test"
)]

mod common;

use attestation::{
    Aead, Evidence, HashScheme, Kdf, Kem, KeyConfig, ModelIdentity, SecurityMode, ServiceManifest,
    manifest_binding,
};
use base64ct::{Base64, Base64UrlUnpadded, Encoding};
use common::{AT, NOW, Run, Scene};
use forge::{Contents, DevelopmentRoot, Issuer};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use serde_json::json;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

/// A simulating service on loopback. Notes which paths it was asked for.
struct Simulation {
    url: String,
    asked: Arc<Mutex<Vec<String>>>,
    policy: String,
}

impl Simulation {
    fn start(scene: &Scene) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let now = u64::try_from(now.as_millis()).unwrap();
        let mut rng = ChaCha20Rng::from_seed([3; 32]);
        let issuer = Issuer::new(DevelopmentRoot::generate(&mut rng, now), &mut rng, now);
        let manifest = manifest(now / 1000);
        let pcrs: serde_json::Map<_, _> = (0..3_u8)
            .map(|index| {
                let value = base16ct::lower::encode_string(&scene.contents.pcrs[&index]);
                (index.to_string(), json!(value))
            })
            .collect();
        let policy = json!({
            "format": "clearseal-trust-policy/1",
            "name": "development",
            "root": { "development": Base64::encode_string(issuer.root_der()) },
            "releases": [{ "name": "development", "pcrs": pcrs }],
            "security_mode": "evaluation",
            "policy_version": "1",
            "model": { "id": "model", "sha256": "04".repeat(32) },
        })
        .to_string();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (paths, own_policy) = (Arc::clone(&asked), policy.clone());
        let contents = scene.contents.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut line = String::new();
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                reader.read_line(&mut line).unwrap();
                let target = line.split(' ').nth(1).unwrap().to_owned();
                let (path, query) = target.split_once('?').unwrap_or((&target, ""));
                paths.lock().unwrap().push(path.to_owned());
                let body = match path {
                    "/v1/attestation" => {
                        let (nonce, _) = query.split_once('&').unwrap();
                        let nonce = nonce.strip_prefix("nonce=").unwrap();
                        let nonce = Base64UrlUnpadded::decode_vec(nonce).unwrap();
                        evidence(&issuer, &manifest, &contents, nonce, now)
                    }
                    "/v1/development-policy" => own_policy.clone().into_bytes(),
                    _ => Vec::new(),
                };
                let status = if body.is_empty() {
                    "404 Not Found"
                } else {
                    "200 OK"
                };
                write!(
                    stream,
                    "HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                    body.len()
                )
                .unwrap();
                stream.write_all(&body).unwrap();
            }
        });
        Self { url, asked, policy }
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }
}

fn evidence(
    issuer: &Issuer,
    manifest: &ServiceManifest,
    contents: &Contents,
    nonce: Vec<u8>,
    now: u64,
) -> Vec<u8> {
    let manifest_bytes = manifest.encode().unwrap();
    let contents = Contents {
        nonce: Some(nonce),
        user_data: Some(manifest_binding(&manifest_bytes).to_vec()),
        public_key: manifest.x25519_key().map(<[u8]>::to_vec),
        ..contents.clone()
    };
    let document = issuer.forge(&contents, now).build();
    Evidence {
        document: &document,
        manifest: &manifest_bytes,
    }
    .encode()
}

fn manifest(now: u64) -> ServiceManifest {
    ServiceManifest {
        version: 1,
        sealing_keys: vec![KeyConfig {
            key_id: 1,
            kem: Kem::X25519,
            // The base point: a valid key, whose other half anybody can guess.
            public_key: [&[9][..], &[0; 31]].concat(),
            symmetric: vec![(Kdf::HkdfSha256, Aead::ChaCha20Poly1305)],
        }],
        receipt_key: [3; 32],
        model: ModelIdentity {
            id: "model".to_owned(),
            version: "1".to_owned(),
            sha256: [4; 32],
            hash_scheme: HashScheme::Sha256Manifest,
            dimension: 384,
            max_tokens: 256,
        },
        policy_version: "1".to_owned(),
        security_mode: SecurityMode::Evaluation,
        not_before: now - 60,
        not_after: now + 3_600,
    }
}

fn embed(scene: &Scene, url: &str, more: &[&str]) -> Run {
    let arguments = [&["embed", "--url", url][..], more].concat();
    common::run(&scene.folder, &arguments, b"a private line\n")
}

/// Evidence and revocation lists are asked for at the same time.
fn asked_in_order(service: &Simulation) -> Vec<String> {
    let mut asked = service.asked();
    asked.sort();
    asked
}

#[test]
fn nothing_is_sent_to_a_simulation_that_was_not_accepted_by_name() {
    let scene = Scene::new("simulation");
    let service = Simulation::start(&scene);
    scene.write("development.json", service.policy.as_bytes());

    // Without a policy: the service is not even asked for one.
    let bare = embed(&scene, &service.url, &[]);
    assert_eq!(bare.status, 2, "{}", bare.err);
    assert!(bare.err.contains("--policy FILE"), "{}", bare.err);
    assert_eq!(asked_in_order(&service), ["/v1/attestation", "/v1/crls"]);

    // With a policy that was chosen by hand and names a development root.
    let chosen = embed(&scene, &service.url, &["--policy", "development.json"]);
    assert_eq!(chosen.status, 1, "{}", chosen.err);
    assert!(chosen.err.contains("SIMULATION_REFUSED"), "{}", chosen.err);
    assert_eq!(asked_in_order(&service), ["/v1/attestation", "/v1/crls"]);

    // Named: only now something goes to the gateway.
    for policy in [&[][..], &["--policy", "development.json"]] {
        let accepted = [&["--accept-simulated"][..], policy].concat();
        let accepted = embed(&scene, &service.url, &accepted);
        assert!(accepted.err.contains("SIMULATED"), "{}", accepted.err);
        assert!(service.asked().contains(&"/v1/gateway".to_owned()));
    }
    assert!([&bare, &chosen].iter().all(|run| run.out.is_empty()));
}

#[test]
fn without_a_service_the_first_words_say_so() {
    let scene = Scene::new("unreachable");
    for more in [&[][..], &["--accept-simulated"]] {
        let run = embed(&scene, "http://127.0.0.1:1", more);
        assert_eq!(run.status, 2);
        let first = "clearseal: cannot reach http://127.0.0.1:1";
        assert!(run.err.starts_with(first), "{}", run.err);
    }
}

/// A forged certificate says VERIFIED in green, clears the screen, and turns the text around.
#[test]
fn evidence_cannot_paint_a_verdict() {
    let scene = Scene::new("painting");
    let painted = "\u{1b}[2J\u{1b}[1;32mVERIFIED\u{1b}[0m\r\n\u{202e}\u{9b}1m";
    let mut forgery = scene.issuer.forge(&scene.contents, NOW);
    for link in &mut forgery.links[1..] {
        link.spec.subject = forge::der::name(&[(forge::der::COMMON_NAME, painted)]);
    }
    scene.write("document.cbor", &forgery.build());
    let mut policy = scene.policy();
    policy["name"] = json!(painted);
    policy["releases"][0]["name"] = json!(painted);
    scene.write("policy.json", policy.to_string().as_bytes());
    for arguments in [
        &["inspect", "attestation", "document.cbor", "--at", AT][..],
        &[
            "inspect",
            "attestation",
            "document.cbor",
            "--at",
            AT,
            "--json",
        ],
        &[
            "verify",
            "attestation",
            "document.cbor",
            "--policy",
            "policy.json",
            "--at",
            AT,
        ],
        &["policy", "check", "policy.json"],
        &["verify", "receipt", painted],
    ] {
        let Run { out, err, .. } = scene.run(arguments);
        for text in [out, err] {
            let acts = |sign: char| sign != '\n' && (sign.is_control() || sign == '\u{202e}');
            assert!(!text.chars().any(acts), "{arguments:?}: {text:?}");
            assert!(!text.lines().any(|line| line.starts_with("VERIFIED")));
        }
    }
}
