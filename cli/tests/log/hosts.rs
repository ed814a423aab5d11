//! Hosts whose answers depend on the whole request and on what came before it.

use super::fixture::{Fixture, manifest};
use attestation::cbor::Writer;
use attestation::{Evidence, manifest_binding};
use base64ct::{Base64UrlUnpadded, Encoding};
use forge::{Contents, Issuer};
use merkle::nonces::{NonceProof, NonceTree};
use protocol::receipt::ReceiptSigner;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// One request as it arrived.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// Number of its connection, from 0.
    pub(crate) connection: usize,
    /// Head of the request, byte for byte.
    pub(crate) raw: String,
}

impl Seen {
    pub(crate) fn target(&self) -> &str {
        self.raw.split(' ').nth(1).unwrap_or_default()
    }

    pub(crate) fn names_log(&self) -> bool {
        self.target().starts_with("/v1/log/")
    }

    /// The nonce in the query; `None` where this asks for something else than evidence.
    pub(crate) fn nonce(&self) -> Option<Vec<u8>> {
        let query = self.target().strip_prefix("/v1/attestation?nonce=")?;
        let nonce = query.split('&').next()?;
        Base64UrlUnpadded::decode_vec(nonce).ok()
    }

    /// The request with another nonce in place of the one that was sent.
    pub(crate) fn without_nonce(&self) -> String {
        match self.nonce() {
            Some(nonce) => self
                .raw
                .replace(&Base64UrlUnpadded::encode_string(&nonce), "NONCE"),
            None => self.raw.clone(),
        }
    }
}

/// Body of a 200; `None` is a 404.
pub(crate) type Answer = Option<Vec<u8>>;

/// A host on a separate port. It keeps connections open.
pub(crate) struct Host {
    pub(crate) url: String,
    seen: Arc<Mutex<Vec<Seen>>>,
    lists: Arc<Mutex<Vec<Seen>>>,
    /// Revocation lists that it serves.
    published: Arc<Mutex<Option<Vec<u8>>>>,
}

impl Host {
    /// `answer` gets all requests so far, the current one last. Requests for revocation lists are apart, and get what was
    /// [published](Self::publish).
    pub(crate) fn start(answer: impl Fn(&[Seen]) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let [seen, lists] = [(); 2].map(|()| Arc::new(Mutex::new(Vec::new())));
        let published = Arc::new(Mutex::new(None));
        let (answer, kept) = (Arc::new(answer), [&seen, &lists].map(Arc::clone));
        let crls = Arc::clone(&published);
        std::thread::spawn(move || {
            for (connection, stream) in listener.incoming().enumerate() {
                let (answer, kept) = (Arc::clone(&answer), kept.clone());
                let crls = Arc::clone(&crls);
                std::thread::spawn(move || {
                    serve(connection, &stream.unwrap(), &kept, &crls, &*answer);
                });
            }
        });
        Self {
            url,
            seen,
            lists,
            published,
        }
    }

    /// Serves these revocation lists from now on.
    pub(crate) fn publish(&self, lists: Vec<u8>) {
        *self.published.lock().unwrap() = Some(lists);
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// Requests for revocation lists.
    pub(crate) fn lists(&self) -> Vec<Seen> {
        self.lists.lock().unwrap().clone()
    }
}

fn serve(
    connection: usize,
    mut stream: &TcpStream,
    [seen, lists]: &[Arc<Mutex<Vec<Seen>>>; 2],
    published: &Mutex<Option<Vec<u8>>>,
    answer: &dyn Fn(&[Seen]) -> Answer,
) {
    let mut reader = BufReader::new(stream);
    loop {
        let mut raw = String::new();
        while !raw.ends_with("\r\n\r\n") {
            if reader.read_line(&mut raw).unwrap_or(0) == 0 {
                return;
            }
        }
        let request = Seen { connection, raw };
        let answered = match request.target() {
            "/v1/crls" => {
                lists.lock().unwrap().push(request);
                published.lock().unwrap().clone()
            }
            _ => {
                let mut seen = seen.lock().unwrap();
                seen.push(request);
                answer(&seen)
            }
        };
        let (status, body) = match answered {
            Some(body) => ("200 OK", body),
            None => ("404 Not Found", br#"{"code":"LOG_UNKNOWN"}"#.to_vec()),
        };
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        if stream
            .write_all(&[head.as_bytes(), &body].concat())
            .is_err()
        {
            return;
        }
    }
}

/// One enclave that answers requests for evidence.
#[derive(Clone)]
pub(crate) struct Enclave {
    issuer: Arc<Issuer>,
    contents: Contents,
    pub(crate) manifest: Vec<u8>,
}

impl Enclave {
    /// The enclave of the fixture's keys, and another one of the same image that has other keys.
    pub(crate) fn pair(fixture: &Fixture) -> (Self, Self) {
        let mut rng = ChaCha20Rng::from_seed([9; 32]);
        let other = manifest(&ReceiptSigner::generate(&mut rng), fixture.now);
        let other = other.encode().unwrap();
        let (issuer, contents) = (Arc::clone(&fixture.issuer), fixture.contents.clone());
        let other = Self {
            issuer: Arc::clone(&issuer),
            contents: Contents {
                user_data: Some(manifest_binding(&other).to_vec()),
                ..contents.clone()
            },
            manifest: other,
        };
        let own = Self {
            issuer,
            contents,
            manifest: fixture.manifest.clone(),
        };
        (own, other)
    }

    fn document(&self, nonce: Vec<u8>) -> Vec<u8> {
        let contents = Contents {
            nonce: Some(nonce),
            ..self.contents.clone()
        };
        let now = fixtures::system_time().0;
        self.issuer.forge(&contents, now).build()
    }

    /// A document for this nonce alone.
    pub(crate) fn evidence(&self, nonce: Vec<u8>) -> Vec<u8> {
        encode(&self.document(nonce), &self.manifest, None)
    }

    /// A document for three nonces; `index` 1 is the place of this one.
    pub(crate) fn shared_evidence(&self, nonce: &[u8], index: u32) -> Vec<u8> {
        let tree = NonceTree::over([&[1; 32][..], nonce, &[2; 32]]).unwrap();
        let document = self.document(tree.document_nonce().to_vec());
        encode(&document, &self.manifest, tree.proof(index).as_ref())
    }
}

/// The answer to `GET /v1/attestation`.
pub(crate) fn encode(document: &[u8], manifest: &[u8], place: Option<&NonceProof>) -> Vec<u8> {
    let Some(place) = place else {
        return Evidence { document, manifest }.encode();
    };
    let mut writer = Writer::new();
    let two = writer.map(3).uint(1).bytes(document);
    two.uint(2).bytes(manifest);
    writer.uint(3).bytes(&place.encode());
    writer.finish()
}
