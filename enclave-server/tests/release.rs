//! Gets the data key from a simulated KMS through an honest parent, and through dishonest ones.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use base64ct::{Base64, Encoding};
use enclave_server::Clock;
use enclave_server::nsm::SimulatedNsm;
use enclave_server::nsm::simulated::read_root;
use enclave_server::parent::{Parent, ParentAddress, Timeouts};
use enclave_server::release::{KeyArn, KeyRequest, PendingKey, ReleaseError, release};
use fixtures::{http, system_time};
use kms_simulator::{Enclave, Simulator, create};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use serde_json::{Value, json};
use sha2::{Digest, Sha384};
use tempfile::TempDir;

const MODEL: [u8; 32] = [4; 32];
/// Contents of the enclave's program: the hash determines the registers.
const BINARY: &[u8] = b"a program";
const PATIENCE: Timeouts = Timeouts {
    stall: Duration::from_millis(300),
    least_rate: 64,
};

/// A simulated key in a folder, and the requests that its simulator saw.
struct Kms {
    folder: TempDir,
    simulator: Simulator,
    seen: Mutex<Vec<Value>>,
}

impl Kms {
    fn new() -> Arc<Self> {
        let folder = tempfile::tempdir().unwrap();
        let binary = folder.path().join("program");
        std::fs::write(&binary, BINARY).unwrap();
        let enclave = Enclave {
            binary: &binary,
            model: "model",
            sha256: &MODEL,
        };
        let mut rng = ChaCha20Rng::from_seed([1; 32]);
        create(folder.path(), &enclave, system_time(), &mut rng).unwrap();
        Arc::new(Self {
            simulator: Simulator::open(folder.path()).unwrap(),
            folder,
            seen: Mutex::default(),
        })
    }

    fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.folder.path().join(name)).unwrap()
    }

    fn arn(&self) -> KeyArn {
        self.simulator.arn.parse().unwrap()
    }

    /// A simulated module under a root that this KMS trusts.
    fn nsm(&self, binary: &[u8]) -> SimulatedNsm {
        let root = read_root(&self.folder.path().join("root.seed")).unwrap();
        let hash = Sha384::digest(binary).into();
        SimulatedNsm::with_registers(
            forge::simulated_registers(&hash, &MODEL),
            Some(&root),
            Clock::system(),
        )
        .unwrap()
    }

    fn decrypt(&self, body: &[u8]) -> (u16, Value) {
        self.seen
            .lock()
            .unwrap()
            .push(serde_json::from_slice(body).unwrap());
        let mut rng = ChaCha20Rng::from_seed([5; 32]);
        match self.simulator.decrypt(body, system_time(), &mut rng) {
            Ok(answer) => (200, answer),
            Err(refusal) => (400, refusal.body()),
        }
    }

    fn request_count(&self) -> usize {
        self.seen.lock().unwrap().len()
    }
}

/// A parent that answers a path and a body with a status and a body.
fn parent(answer: impl Fn(&str, &[u8]) -> (u16, Vec<u8>) + Send + 'static) -> Parent {
    let address = http::serve(move |request, stream| {
        let (status, body) = answer(request.path(), &request.body);
        http::respond(stream, &format!("{status} X"), &body);
    });
    Parent::new(ParentAddress::Tcp(address), PATIENCE)
}

/// A parent that passes the answer of `Decrypt` through `edit`.
fn editing_parent(
    kms: &Arc<Kms>,
    edit: impl Fn((u16, Value)) -> (u16, Value) + Send + 'static,
) -> Parent {
    let kms = Arc::clone(kms);
    parent(move |path, body| match path {
        "/v1/models/tiny/data-key.wrapped" => (200, kms.read("data-key.wrapped")),
        "/v1/kms/decrypt" => {
            let (status, answer) = edit(kms.decrypt(body));
            (status, answer.to_string().into_bytes())
        }
        other => panic!("{other}"),
    })
}

fn ask(kms: &Kms, parent: &Parent) -> Result<[u8; 32], ReleaseError> {
    ask_as(kms, parent, BINARY, "model")
}

fn ask_as(
    kms: &Kms,
    parent: &Parent,
    binary: &[u8],
    model: &str,
) -> Result<[u8; 32], ReleaseError> {
    let nsm = kms.nsm(binary);
    let wanted = KeyRequest {
        key: &kms.arn(),
        container: "tiny",
        model,
        sha256: &MODEL,
    };
    let key = PendingKey::start(&nsm)?;
    let until = Instant::now() + Duration::from_secs(30);
    release(&nsm, parent, key, wanted, until).map(|released| *released.key.expose())
}

#[test]
fn the_attested_enclave_gets_its_key_with_the_context_of_its_configuration() {
    let kms = Kms::new();
    // Once for each shape of envelopes.
    for _ in 0..3 {
        let key = ask(&kms, &editing_parent(&kms, |answer| answer)).unwrap();
        assert_eq!(key.as_slice(), kms.read("data-key"));
    }
    let seen = kms.seen.lock().unwrap();
    assert_eq!(seen[0]["KeyId"], kms.simulator.arn);
    let context = json!({ "clearseal-model": "model", "clearseal-version": "04".repeat(32) });
    assert_eq!(seen[0]["EncryptionContext"], context);
    let keys: Vec<_> = seen
        .iter()
        .map(|request| request["Recipient"]["AttestationDocument"].clone())
        .collect();
    assert!(
        keys[0] != keys[1] && keys[1] != keys[2],
        "a key was used twice"
    );
}

#[test]
fn another_program_or_model_is_denied_by_kms() {
    let kms = Kms::new();
    for (binary, model) in [(b"another".as_slice(), "model"), (BINARY, "other model")] {
        let error =
            ask_as(&kms, &editing_parent(&kms, |answer| answer), binary, model).unwrap_err();
        assert_eq!(error.code(), "KEY_RELEASE_DENIED");
        assert!(
            error
                .to_string()
                .contains("AccessDeniedException (status 400)"),
            "{error}"
        );
    }
}

#[test]
fn each_dishonest_answer_has_its_code() {
    let kms = Kms::new();
    let with = |name: &'static str, value: Value| {
        editing_parent(&kms, move |(status, mut answer)| {
            answer[name] = value.clone();
            (status, answer)
        })
    };
    for (parent, expected) in [
        (with("Plaintext", "AAAA".into()), "KEY_RELEASE_PLAINTEXT"),
        (with("KeyId", "alias/model".into()), "KEY_RELEASE_OTHER_KEY"),
        (
            with("CiphertextForRecipient", Value::Null),
            "KEY_RELEASE_ANSWER_INVALID",
        ),
        (
            with("CiphertextForRecipient", "?".into()),
            "KEY_RELEASE_ANSWER_INVALID",
        ),
        (
            with("CiphertextForRecipient", "AAAA".into()),
            "KEY_RELEASE_REFUSED",
        ),
        (
            with("CiphertextForRecipient", "A".repeat(15_000).into()),
            "KEY_RELEASE_REFUSED",
        ),
        (
            with("CiphertextForRecipient", "A".repeat(20_000).into()),
            "PARENT_ANSWER_TOO_LARGE",
        ),
        (
            editing_parent(&kms, |_| (200, json!([]))),
            "KEY_RELEASE_ANSWER_INVALID",
        ),
        (
            editing_parent(&kms, |_| (400, json!([]))),
            "KEY_RELEASE_DENIED",
        ),
        (
            editing_parent(&kms, |_| (503, json!([]))),
            "KEY_RELEASE_UNAVAILABLE",
        ),
        (parent(|_, _| (404, vec![])), "KEY_RELEASE_NO_WRAPPED_KEY"),
        (parent(|_, _| (200, vec![])), "KEY_RELEASE_WRAPPED_KEY"),
        (
            parent(|_, _| (200, vec![0; 6145])),
            "PARENT_ANSWER_TOO_LARGE",
        ),
    ] {
        assert_eq!(ask(&kms, &parent).unwrap_err().code(), expected);
    }
    // An empty plaintext is accepted, because KMS may send one.
    assert!(ask(&kms, &with("Plaintext", "".into())).is_ok());
}

/// An envelope is not authenticated: an edited one is refused without a cause, or yields a key that opens nothing.
#[test]
fn edited_envelopes_have_one_error_and_one_call_each() {
    let kms = Kms::new();
    let right = kms.read("data-key");
    for (count, at) in (0..480).step_by(48).enumerate() {
        let parent = editing_parent(&kms, move |(status, mut answer)| {
            let envelope = answer["CiphertextForRecipient"].as_str().unwrap();
            let mut envelope = Base64::decode_vec(envelope).unwrap();
            envelope[at] ^= 1;
            answer["CiphertextForRecipient"] = Base64::encode_string(&envelope).into();
            (status, answer)
        });
        match ask(&kms, &parent) {
            Err(error) => assert_eq!(error.code(), "KEY_RELEASE_REFUSED", "{at}"),
            Ok(key) => assert_ne!(key.as_slice(), right, "{at}"),
        }
        assert_eq!(kms.request_count(), count + 1);
    }
}

#[test]
fn the_name_of_a_refusal_cannot_write_into_the_log() {
    let kms = Kms::new();
    for (name, expected) in [
        (
            json!("com.amazonaws.kms#AccessDeniedException"),
            "answered AccessDeniedException (",
        ),
        (json!("\u{1b}[31m evil\nline"), "answered 31mevilline ("),
        (json!(7), "answered no name ("),
    ] {
        let answer = json!({ "__type": name });
        let error = ask(&kms, &editing_parent(&kms, move |_| (400, answer.clone()))).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn a_parent_that_stalls_or_is_unreachable_is_reported_in_time() {
    let kms = Kms::new();
    let stalling = parent(|_, _| {
        std::thread::sleep(Duration::from_secs(2));
        (200, vec![])
    });
    assert_eq!(ask(&kms, &stalling).unwrap_err().code(), "PARENT_STALLED");
    let address: ParentAddress = "unix:/nonexistent/parent.sock".parse().unwrap();
    let nsm = kms.nsm(BINARY);
    let wanted = KeyRequest {
        key: &kms.arn(),
        container: "tiny",
        model: "model",
        sha256: &MODEL,
    };
    let key = PendingKey::start(&nsm).unwrap();
    let until = Instant::now() + Duration::from_millis(200);
    let parent = Parent::new(address, PATIENCE);
    let error = release(&nsm, &parent, key, wanted, until).err().unwrap();
    assert_eq!(error.code(), "PARENT_UNREACHABLE");
}

#[test]
fn the_enclave_waits_for_a_parent_that_listens_late() {
    let kms = Kms::new();
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("parent.sock");
    let address: ParentAddress = format!("unix:{}", socket.display()).parse().unwrap();
    let late = Arc::clone(&kms);
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        late_parent(&socket, &late);
    });
    let key = ask(&kms, &Parent::new(address, PATIENCE)).unwrap();
    assert_eq!(key.as_slice(), kms.read("data-key"));
}

fn late_parent(socket: &Path, kms: &Kms) {
    let listener = std::os::unix::net::UnixListener::bind(socket).unwrap();
    for stream in listener.incoming() {
        let mut stream = stream.unwrap();
        let request = http::Request::read(&mut stream).unwrap();
        let body = match request.method() {
            "GET" => kms.read("data-key.wrapped"),
            _ => kms.decrypt(&request.body).1.to_string().into_bytes(),
        };
        http::respond(stream, "200 OK", &body);
    }
}
