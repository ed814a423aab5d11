//! Keys that a client was given, and what hosts show of them.

use super::fixture::Fixture;
use super::hosts::{Enclave, Host, Seen, encode};
use crate::common::run;
use base64ct::{Base64UrlUnpadded, Encoding};
use merkle::json::{Consistency, Format, Inclusion, hex, to_json};
use merkle::tree::{Frontier, keys_hash, leaf_hash, receipt_hash};
use merkle::verify::Tree;
use protocol::receipt::ReceiptSigner;
use serde_json::Value;
use std::collections::BTreeSet;

/// A log that begins with keys, as a host shows it.
struct Log {
    leaves: Vec<[u8; 32]>,
}

impl Log {
    /// Of the fixture's keys, and so many of its receipts.
    fn of(fixture: &Fixture, receipts: usize) -> Self {
        let receipts = fixture.receipts[..receipts].iter();
        let leaves = [keys_hash(&fixture.manifest)]
            .into_iter()
            .chain(receipts.map(|receipt| receipt_hash(receipt)));
        Self {
            leaves: leaves.collect(),
        }
    }

    fn head(&self, fixture: &Fixture, signer: &ReceiptSigner) -> Vec<u8> {
        let mut frontier = Frontier::new();
        for leaf in &self.leaves {
            frontier.append(leaf, |_, _| ());
        }
        let tree = Tree {
            size: frontier.size(),
            root: frontier.root(),
        };
        signer.sign_head(tree, fixture.now + 5, receipt_hash(&fixture.document))
    }

    /// Of one of its two leaves.
    fn inclusion(&self, fixture: &Fixture, index: usize) -> Inclusion {
        assert_eq!(self.leaves.len(), 2);
        Inclusion {
            format: Format::new(),
            index: index as u64,
            path: vec![leaf_hash(&self.leaves[1 - index])],
            head: self.head(fixture, &fixture.signer),
        }
    }
}

fn path(fixture: &Fixture) -> String {
    let keys = hex(&keys_hash(&fixture.manifest));
    format!("/v1/log/{}/inclusion?receipt={keys}", fixture.key)
}

/// A host that shows this proof of the keys, hands out the keys of this enclave, and has more to answer.
fn showing(
    fixture: &Fixture,
    proof: &Inclusion,
    enclave: &Enclave,
    more: Vec<(String, Vec<u8>)>,
) -> Host {
    let enclave = enclave.clone();
    hosting(fixture, proof, more, move |seen| {
        Some(enclave.evidence(seen.last()?.nonce()?))
    })
}

/// A host that shows this proof of the keys, and answers a request for evidence as `evidence` says.
fn hosting(
    fixture: &Fixture,
    proof: &Inclusion,
    more: Vec<(String, Vec<u8>)>,
    evidence: impl Fn(&[Seen]) -> Option<Vec<u8>> + Send + Sync + 'static,
) -> Host {
    let mut answers = more;
    answers.push((path(fixture), to_json(proof).unwrap().into_bytes()));
    Host::start(move |seen| {
        let target = seen.last()?.target();
        let known = answers.iter().find(|(known, _)| known == target);
        match known {
            Some((_, body)) => Some(body.clone()),
            None => evidence(seen),
        }
    })
}

fn ask(fixture: &Fixture, urls: &[&str]) -> (i32, Value) {
    let mut asked = vec!["keys", "bundle.json", "--policy", "policy.json"];
    for url in urls {
        asked.extend(["--url", url]);
    }
    asked.push("--accept-simulated");
    fixture.run(&asked)
}

#[test]
fn keys_that_hosts_show_and_give_to_strangers_pass() {
    let fixture = Fixture::live("keys-shown");
    let two = Log::of(&fixture, 1);
    let short = Log::of(&fixture, 0);
    let alone = Inclusion {
        format: Format::new(),
        index: 0,
        path: vec![],
        head: short.head(&fixture, &fixture.signer),
    };
    // The second host's log is the first one's a receipt later.
    let consistency = Consistency {
        format: Format::new(),
        from: 1,
        to: 2,
        path: vec![leaf_hash(&two.leaves[1])],
    };
    let (own, _) = Enclave::pair(&fixture);
    let first = showing(&fixture, &alone, &own, vec![]);
    let second = showing(
        &fixture,
        &two.inclusion(&fixture, 0),
        &own,
        vec![(
            format!("/v1/log/{}/consistency?from=1&to=2", fixture.key),
            to_json(&consistency).unwrap().into_bytes(),
        )],
    );
    let (first, second) = (&*first.url, &*second.url);
    for urls in [&[first][..], &[first, second], &[second, first]] {
        let (status, report) = ask(&fixture, urls);
        assert_eq!(
            (status, &report["verdict"]),
            (0, &"simulated".into()),
            "{report}"
        );
        assert_eq!(report["hosts"].as_array().unwrap().len(), urls.len());
        assert_eq!(report["hosts"][0]["given_at"], 1);
        assert_eq!(report["keys"], hex(&keys_hash(&fixture.manifest)));
    }
    // The evidence as the endpoint answers it says the same as a bundle.
    let bundle = ask(&fixture, &[first]).1;
    let evidence = attestation::Evidence {
        document: &fixture.document,
        manifest: &fixture.manifest,
    };
    fixture.write("bundle.json", &evidence.encode());
    assert_eq!(ask(&fixture, &[first]).1["keys"], bundle["keys"]);
}

#[test]
fn keys_that_a_stranger_is_not_given_are_refused() {
    let fixture = Fixture::live("keys-alone");
    let shown = Log::of(&fixture, 1);
    let (own, other) = Enclave::pair(&fixture);
    // It shows the log to everyone who names it, and keeps the keys for one user.
    let alone = showing(&fixture, &shown.inclusion(&fixture, 0), &other, vec![]);
    let (status, report) = ask(&fixture, &[&alone.url]);
    assert_eq!(
        (status, &report["hosts"][0]["log"]["code"]),
        (1, &"KEYS_NOT_GIVEN".into()),
        "{report}"
    );
    assert_eq!(report["verdict"], "refused");
    // It shows nothing.
    let hidden = Host::start(|seen| seen.last()?.nonce().map(|_| Vec::new()));
    let (status, report) = ask(&fixture, &[&hidden.url]);
    assert_eq!(
        (status, &report["hosts"][0]["log"]["code"]),
        (1, &"KEYS_NOT_SHOWN".into()),
        "{report}"
    );

    // Another log's beginning, in this one's name; a later leaf in place of the first.
    let other = ReceiptSigner::generate(&mut rng());
    let forged = Inclusion {
        head: shown.head(&fixture, &other),
        ..shown.inclusion(&fixture, 0)
    };
    let mut later = Log::of(&fixture, 1);
    later.leaves.swap(0, 1);
    let begun_otherwise = Inclusion {
        index: 0,
        ..later.inclusion(&fixture, 1)
    };
    for (proof, wanted) in [
        (forged, "HEAD_OTHER_LOG"),
        (later.inclusion(&fixture, 1), "NUMBER_MISMATCH"),
        (begun_otherwise, "ROOT_MISMATCH"),
    ] {
        let host = showing(&fixture, &proof, &own, vec![]);
        let (status, report) = ask(&fixture, &[&host.url]);
        assert_eq!(
            (status, &report["hosts"][0]["log"]["code"]),
            (1, &wanted.into()),
            "{report}"
        );
    }
}

#[test]
fn two_histories_of_one_key_are_refused() {
    let fixture = Fixture::live("keys-forked");
    let one = Log::of(&fixture, 1);
    let mut two = Log::of(&fixture, 1);
    two.leaves[1] = receipt_hash(&fixture.receipts[2]);
    let (own, _) = Enclave::pair(&fixture);
    let hosts =
        [&one, &two].map(|log| showing(&fixture, &log.inclusion(&fixture, 0), &own, vec![]));
    let (status, report) = ask(&fixture, &[&hosts[0].url, &hosts[1].url]);
    assert_eq!(
        (status, &report["hosts"][1]["log"]["code"]),
        (1, &"HISTORY_FORKED".into()),
        "{report}"
    );
    // Both heads are in the report, to be kept.
    assert_ne!(report["hosts"][0]["head"], report["hosts"][1]["head"]);
    // A longer history that does not start with the first one, and no proof between them.
    let alone = Inclusion {
        format: Format::new(),
        index: 0,
        path: vec![],
        head: Log::of(&fixture, 0).head(&fixture, &fixture.signer),
    };
    let short = showing(&fixture, &alone, &own, vec![]);
    let (status, report) = ask(&fixture, &[&hosts[0].url, &short.url]);
    assert_eq!(
        (status, &report["hosts"][1]["log"]["code"]),
        (1, &"CONSISTENCY_MISSING".into()),
        "{report}"
    );
}

#[test]
fn what_cannot_be_asked_is_no_verdict() {
    let fixture = Fixture::live("keys-unasked");
    assert_eq!(ask(&fixture, &["http://127.0.0.1:1"]).0, 2);
    assert_eq!(ask(&fixture, &[]).0, 2);
    let (own, _) = Enclave::pair(&fixture);
    let garbled = Host::start(move |seen| {
        let last = seen.last()?;
        let evidence = || Some(own.evidence(last.nonce()?));
        evidence().or_else(|| Some(b"no JSON".to_vec()))
    });
    assert_eq!(ask(&fixture, &[&garbled.url]).0, 2);
    // A document names no keys; evidence of another image is refused before anybody is asked.
    fixture.write("bundle.json", &fixture.document);
    assert_eq!(ask(&fixture, &["http://127.0.0.1:1"]).0, 2);
}

#[test]
fn lists_that_the_policy_requires_are_given_for_the_keys_and_served_by_hosts() {
    let fixture = Fixture::live("keys-revocation");
    fixture.edit("policy.json", |policy| {
        policy["revocation"] = "required".into();
    });
    let forgery = fixture.issuer.forge(&fixture.contents, fixture.now * 1000);
    let current = forgery.crls();
    let mut revoking = forgery.crl(1);
    revoking.entries.push(forgery.revocation(2));
    let revoking = forgery.sign_crl(&revoking, 1);
    let root = forgery.sign_crl(&forgery.crl(0), 0);
    let regional = forgery.sign_crl(&forgery.crl(1), 1);
    fixture.write("root.crl", &root);
    fixture.write("regional.crl", &regional);
    fixture.write("revoking.crl", &revoking);

    let (own, _) = Enclave::pair(&fixture);
    let start = || {
        let proof = Log::of(&fixture, 1).inclusion(&fixture, 0);
        showing(&fixture, &proof, &own, vec![])
    };
    let ask_with = |host: &Host, lists: &[&str]| {
        let mut asked = vec!["keys", "bundle.json", "--policy", "policy.json"];
        asked.extend(["--url", &*host.url, "--accept-simulated"]);
        for list in lists {
            asked.extend(["--crl", list]);
        }
        fixture.run(&asked)
    };
    let attested = |report: &Value| report["attestation"]["code"].clone();
    let shown = |report: &Value| report["hosts"][0]["evidence_refused"].clone();

    // The evidence of the keys is judged before any host is asked.
    let host = start();
    host.publish(current.clone());
    for (lists, code) in [
        (&[][..], "REVOCATION_UNKNOWN"),
        (&["root.crl"][..], "REVOCATION_UNKNOWN"),
        (&["root.crl", "revoking.crl"][..], "CERTIFICATE_REVOKED"),
    ] {
        let (status, report) = ask_with(&host, lists);
        assert_eq!((status, attested(&report)), (1, code.into()), "{report}");
    }
    assert!(host.seen().is_empty() && host.lists().is_empty());

    // Lists as files, then the ones that the bundle holds.
    let (status, report) = ask_with(&host, &["root.crl", "regional.crl"]);
    assert_eq!((status, attested(&report)), (0, Value::Null), "{report}");
    assert_eq!(report["hosts"][0]["given_at"], 1);
    let archived = Base64UrlUnpadded::encode_string(&current);
    fixture.edit("bundle.json", |bundle| {
        bundle["crls"] = archived.into();
    });
    let (status, report) = ask_with(&host, &[]);
    assert_eq!((status, attested(&report)), (0, Value::Null), "{report}");

    // A stranger is given no keys where the host's lists are missing, or revoke its certificates.
    let withholding = start();
    let hostile = start();
    hostile.publish(revoking);
    for (host, code) in [
        (withholding, "REVOCATION_UNKNOWN"),
        (hostile, "CERTIFICATE_REVOKED"),
    ] {
        let (status, report) = ask_with(&host, &[]);
        assert_eq!((status, shown(&report)), (1, code.into()), "{report}");
        assert_eq!(report["hosts"][0]["log"]["code"], "KEYS_NOT_GIVEN");
    }
}

#[test]
fn evidence_is_asked_for_as_an_ordinary_client_asks_and_before_the_log_is_named() {
    let fixture = Fixture::live("keys-ordinary");
    let proof = Log::of(&fixture, 1).inclusion(&fixture, 0);
    let (own, other) = Enclave::pair(&fixture);
    let hosts = [&own, &other].map(|enclave| showing(&fixture, &proof, enclave, vec![]));
    let ordinary = showing(&fixture, &proof, &own, vec![]);
    // Its sealed request gets no answer; its request for evidence is all that counts here.
    let arguments = ["embed", "--policy", "policy.json", "--accept-simulated"];
    let url = ["--url", &*ordinary.url];
    run(
        &fixture.folder,
        &[&arguments[..], &url].concat(),
        b"a line\n",
    );
    let own_address = |host: &Host, seen: &Seen| {
        let address = host.url.strip_prefix("http://").unwrap();
        seen.without_nonce().replace(address, "ADDRESS")
    };
    let expected = own_address(&ordinary, &ordinary.seen()[0]);
    assert!(expected.contains("?nonce=NONCE&shared=1 "), "{expected}");
    let expected_lists = own_address(&ordinary, &ordinary.lists()[0]);

    let (status, report) = ask(&fixture, &[&hosts[0].url, &hosts[1].url]);
    assert_eq!(status, 1, "{report}");
    let mut nonces = Vec::new();
    for (host, times) in hosts.iter().zip([1, 16]) {
        let seen = host.seen();
        let (evidence, named) = seen.split_at(times);
        for request in evidence {
            assert_eq!(own_address(host, request), expected);
            nonces.push(request.nonce().unwrap());
        }
        assert!(!named.is_empty() && named.iter().all(Seen::names_log));
        let lists = host.lists();
        assert_eq!(lists.len(), times);
        for request in &lists {
            assert_eq!(own_address(host, request), expected_lists);
        }
        // A client may ask for lists on its own connection for evidence. Everything else has a separate one: one client after
        // the other, and then each request that names the log.
        let clients = evidence
            .iter()
            .zip(&lists)
            .flat_map(|(evidence, lists)| BTreeSet::from([evidence.connection, lists.connection]));
        let all = clients.chain(named.iter().map(|request| request.connection));
        let mut connections = BTreeSet::new();
        for connection in all {
            assert!(connections.insert(connection), "a connection was shared");
        }
    }
    let all = nonces.len();
    nonces.sort();
    nonces.dedup();
    assert_eq!((all, nonces.len()), (17, 17), "a nonce was used twice");
}

#[test]
fn no_host_learns_which_keys_are_in_question_before_every_host_has_given_evidence() {
    let fixture = Fixture::live("keys-colluding");
    let proof = Log::of(&fixture, 1).inclusion(&fixture, 0);
    let (own, other) = Enclave::pair(&fixture);
    // Two addresses of one operator: once the log was named at one, the other gives the keys in question to everyone.
    let named = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let hosts = [0, 1].map(|_| {
        let (own, other) = (own.clone(), other.clone());
        let (proof, path) = (to_json(&proof).unwrap().into_bytes(), path(&fixture));
        let named = std::sync::Arc::clone(&named);
        Host::start(move |seen| {
            let last = seen.last()?;
            if last.target() == path {
                named.store(true, std::sync::atomic::Ordering::SeqCst);
                return Some(proof.clone());
            }
            match named.load(std::sync::atomic::Ordering::SeqCst) {
                true => Some(own.evidence(last.nonce()?)),
                false => Some(other.evidence(last.nonce()?)),
            }
        })
    });
    let (status, report) = ask(&fixture, &[&hosts[0].url, &hosts[1].url]);
    assert_eq!(status, 1, "{report}");
    for number in 0..2 {
        assert_eq!(report["hosts"][number]["log"]["code"], "KEYS_NOT_GIVEN");
    }
}

/// Answer of a host to one request for evidence, from all requests so far and the nonce.
type Trick = Box<dyn Fn(&[Seen], Vec<u8>) -> Vec<u8> + Send + Sync>;

#[test]
fn hosts_that_tag_one_user_are_refused() {
    let fixture = Fixture::live("keys-tagged");
    let proof = Log::of(&fixture, 1).inclusion(&fixture, 0);
    let (own, other) = Enclave::pair(&fixture);
    let old = encode(&fixture.document, &fixture.manifest, None);
    let tagged_when = |sees: fn(&[Seen]) -> bool| -> Trick {
        let (own, other) = (own.clone(), other.clone());
        Box::new(move |seen, nonce| match sees(seen) {
            true => own.evidence(nonce),
            false => other.evidence(nonce),
        })
    };
    let (bare, wrong, mixed) = (own.clone(), own.clone(), other.clone());
    let manifest = fixture.manifest.clone();
    let tricks: [(&str, Trick, Option<&str>); 8] = [
        (
            "a request without shared=1 gets the keys in question",
            tagged_when(|seen| {
                seen.last()
                    .is_some_and(|last| !last.target().contains("shared=1"))
            }),
            None,
        ),
        (
            "a request that has fields of a verifier gets them",
            tagged_when(|seen| {
                seen.last()
                    .is_some_and(|last| last.raw.lines().count() != 3)
            }),
            None,
        ),
        (
            "a later request on the connection that named the log gets them",
            tagged_when(|seen| {
                let connection = seen.last().map(|last| last.connection);
                seen.iter()
                    .any(|one| one.names_log() && Some(one.connection) == connection)
            }),
            None,
        ),
        (
            "every request after the log was named gets them",
            tagged_when(|seen| seen.iter().any(Seen::names_log)),
            None,
        ),
        (
            "strangers get an old document",
            Box::new(move |_, _| old.clone()),
            Some("NONCE_MISMATCH"),
        ),
        (
            "strangers get a document for another client's nonce",
            Box::new(move |_, _| bare.evidence(vec![3; 32])),
            Some("NONCE_MISMATCH"),
        ),
        (
            "strangers get another client's place in a shared document",
            Box::new(move |_, nonce| wrong.shared_evidence(&nonce, 2)),
            Some("NONCE_MISMATCH"),
        ),
        (
            "strangers get the manifest with another enclave's document",
            Box::new(move |_, nonce| {
                let evidence = mixed.evidence(nonce);
                let evidence = attestation::Evidence::parse(&evidence).unwrap();
                encode(evidence.document, &manifest, None)
            }),
            Some("MANIFEST_MISMATCH"),
        ),
    ];
    for (what, trick, refused) in tricks {
        let host = hosting(&fixture, &proof, vec![], move |seen| {
            Some(trick(seen, seen.last()?.nonce()?))
        });
        let (status, report) = ask(&fixture, &[&host.url]);
        let shown = &report["hosts"][0];
        assert_eq!(
            (status, &shown["log"]["code"], &report["verdict"]),
            (1, &"KEYS_NOT_GIVEN".into(), &"refused".into()),
            "{what}: {report}"
        );
        assert_eq!(shown["evidence_refused"].as_str(), refused, "{what}");
        assert!(shown["given_at"].is_null(), "{what}");
    }
}

#[test]
fn a_place_in_a_shared_document_counts_and_so_does_a_later_replica() {
    let fixture = Fixture::live("keys-replicas");
    let proof = Log::of(&fixture, 1).inclusion(&fixture, 0);
    let (own, other) = Enclave::pair(&fixture);
    // A balancer with three replicas: every third answer is of the enclave in question.
    let host = hosting(&fixture, &proof, vec![], move |seen| {
        let nonce = seen.last()?.nonce()?;
        Some(match seen.len() % 3 {
            0 => own.shared_evidence(&nonce, 1),
            _ => other.evidence(nonce),
        })
    });
    let (status, report) = ask(&fixture, &[&host.url]);
    assert_eq!((status, &report["verdict"]), (0, &"simulated".into()));
    assert_eq!(report["hosts"][0]["given_at"], 3);
    // Three requests went out, and the log was named: the next answer but one is of the enclave in question again.
    let once = ["--url", &*host.url, "--requests", "1"];
    let asked = ["keys", "bundle.json", "--policy", "policy.json"];
    let (status, report) = fixture.run(&[&asked[..], &once].concat());
    assert_eq!(
        (status, &report["hosts"][0]["log"]["code"]),
        (1, &"KEYS_NOT_GIVEN".into()),
        "{report}"
    );
}

fn rng() -> rand_chacha::ChaCha20Rng {
    rand_chacha::rand_core::SeedableRng::from_seed([8; 32])
}
