//! Keys that a client was given, and what hosts show of them.

use crate::scene::{NOW, Scene, host};
use merkle::exchange::{Consistency, Format, Inclusion, hex, to_json};
use merkle::tree::{Frontier, keys_hash, leaf_hash, receipt_hash};
use merkle::verify::Tree;
use protocol::receipt::ReceiptSigner;
use serde_json::Value;

/// A log that begins with keys, as a host shows it.
struct Log {
    leaves: Vec<[u8; 32]>,
}

impl Log {
    /// Of the scene's keys, and so many of its receipts.
    fn of(scene: &Scene, receipts: usize) -> Self {
        let receipts = scene.receipts[..receipts].iter();
        let leaves = [keys_hash(&scene.manifest)]
            .into_iter()
            .chain(receipts.map(|receipt| receipt_hash(receipt)));
        Self {
            leaves: leaves.collect(),
        }
    }

    fn head(&self, scene: &Scene, signer: &ReceiptSigner) -> Vec<u8> {
        let mut frontier = Frontier::new();
        for leaf in &self.leaves {
            frontier.append(leaf, |_, _| ());
        }
        let tree = Tree {
            size: frontier.size(),
            root: frontier.root(),
        };
        signer.sign_head(tree, NOW + 5, receipt_hash(&scene.document))
    }

    /// Of one of its two leaves.
    fn inclusion(&self, scene: &Scene, index: usize) -> Inclusion {
        assert_eq!(self.leaves.len(), 2);
        Inclusion {
            format: Format::new(),
            index: index as u64,
            path: vec![leaf_hash(&self.leaves[1 - index])],
            head: self.head(scene, &scene.signer),
        }
    }
}

fn path(scene: &Scene) -> String {
    let keys = hex(&keys_hash(&scene.manifest));
    format!("/v1/log/{}/inclusion?receipt={keys}", scene.key)
}

/// A host that shows this proof of the keys, hands out this manifest, and has more to answer.
fn showing(
    scene: &Scene,
    proof: &Inclusion,
    manifest: &[u8],
    more: Vec<(String, Vec<u8>)>,
) -> String {
    let evidence = attestation::Evidence {
        document: &scene.document,
        manifest,
    };
    let mut answers = more;
    answers.push((path(scene), to_json(proof).unwrap().into_bytes()));
    answers.push(("/v1/attestation".to_owned(), evidence.encode()));
    host(answers)
}

fn ask(scene: &Scene, urls: &[&str]) -> (i32, Value) {
    let mut asked = vec!["keys", "bundle.json", "--policy", "policy.json"];
    for url in urls {
        asked.extend(["--url", url]);
    }
    asked.push("--accept-simulated");
    scene.run(&asked)
}

#[test]
fn keys_that_hosts_show_and_give_to_strangers_pass() {
    let scene = Scene::new("keys-shown");
    let two = Log::of(&scene, 1);
    let short = Log::of(&scene, 0);
    let alone = Inclusion {
        format: Format::new(),
        index: 0,
        path: vec![],
        head: short.head(&scene, &scene.signer),
    };
    // The second host's log is the first one's a receipt later.
    let consistency = Consistency {
        format: Format::new(),
        from: 1,
        to: 2,
        path: vec![leaf_hash(&two.leaves[1])],
    };
    let first = showing(&scene, &alone, &scene.manifest, vec![]);
    let second = showing(
        &scene,
        &two.inclusion(&scene, 0),
        &scene.manifest,
        vec![(
            format!("/v1/log/{}/consistency?from=1&to=2", scene.key),
            to_json(&consistency).unwrap().into_bytes(),
        )],
    );
    for urls in [&[&*first][..], &[&first, &second], &[&second, &first]] {
        let (status, report) = ask(&scene, urls);
        assert_eq!(
            (status, &report["verdict"]),
            (0, &"simulated".into()),
            "{report}"
        );
        assert_eq!(report["hosts"].as_array().unwrap().len(), urls.len());
        assert_eq!(report["hosts"][0]["given_at"], 1);
        assert_eq!(report["keys"], hex(&keys_hash(&scene.manifest)));
    }
    // The evidence as the endpoint answers it says the same as a bundle.
    let bundle = ask(&scene, &[&first]).1;
    let evidence = attestation::Evidence {
        document: &scene.document,
        manifest: &scene.manifest,
    };
    scene.write("bundle.json", &evidence.encode());
    assert_eq!(ask(&scene, &[&first]).1["keys"], bundle["keys"]);
}

#[test]
fn keys_that_a_stranger_is_not_given_are_refused() {
    let scene = Scene::new("keys-alone");
    let shown = Log::of(&scene, 1);
    // It shows the log to whoever names it, and keeps the keys for one user.
    let alone = showing(&scene, &shown.inclusion(&scene, 0), b"other keys", vec![]);
    let (status, report) = ask(&scene, &[&alone]);
    assert_eq!(
        (status, &report["hosts"][0]["log"]["code"]),
        (1, &"KEYS_NOT_GIVEN".into()),
        "{report}"
    );
    assert_eq!(report["verdict"], "refused");
    // It shows nothing.
    let hidden = host(vec![("/v1/attestation".to_owned(), vec![])]);
    let (status, report) = ask(&scene, &[&hidden]);
    assert_eq!(
        (status, &report["hosts"][0]["log"]["code"]),
        (1, &"KEYS_NOT_SHOWN".into()),
        "{report}"
    );

    // Another log's beginning, in this one's name; a later leaf in place of the first.
    let other = ReceiptSigner::generate(&mut rng());
    let forged = Inclusion {
        head: shown.head(&scene, &other),
        ..shown.inclusion(&scene, 0)
    };
    let mut later = Log::of(&scene, 1);
    later.leaves.swap(0, 1);
    let begun_otherwise = Inclusion {
        index: 0,
        ..later.inclusion(&scene, 1)
    };
    for (proof, wanted) in [
        (forged, "HEAD_OTHER_LOG"),
        (later.inclusion(&scene, 1), "NUMBER_MISMATCH"),
        (begun_otherwise, "ROOT_MISMATCH"),
    ] {
        let url = showing(&scene, &proof, &scene.manifest, vec![]);
        let (status, report) = ask(&scene, &[&url]);
        assert_eq!(
            (status, &report["hosts"][0]["log"]["code"]),
            (1, &wanted.into()),
            "{report}"
        );
    }
}

#[test]
fn two_histories_of_one_key_are_refused() {
    let scene = Scene::new("keys-forked");
    let one = Log::of(&scene, 1);
    let mut two = Log::of(&scene, 1);
    two.leaves[1] = receipt_hash(&scene.receipts[2]);
    let hosts =
        [&one, &two].map(|log| showing(&scene, &log.inclusion(&scene, 0), &scene.manifest, vec![]));
    let (status, report) = ask(&scene, &[&hosts[0], &hosts[1]]);
    assert_eq!(
        (status, &report["hosts"][1]["log"]["code"]),
        (1, &"HISTORY_FORKED".into()),
        "{report}"
    );
    // Both heads are in the report, to be kept.
    assert_ne!(report["hosts"][0]["head"], report["hosts"][1]["head"]);
    // A longer history that the first is no start of, and no proof between them.
    let alone = Inclusion {
        format: Format::new(),
        index: 0,
        path: vec![],
        head: Log::of(&scene, 0).head(&scene, &scene.signer),
    };
    let short = showing(&scene, &alone, &scene.manifest, vec![]);
    let (status, report) = ask(&scene, &[&hosts[0], &short]);
    assert_eq!(
        (status, &report["hosts"][1]["log"]["code"]),
        (1, &"CONSISTENCY_MISSING".into()),
        "{report}"
    );
}

#[test]
fn what_cannot_be_asked_is_no_verdict() {
    let scene = Scene::new("keys-unasked");
    assert_eq!(ask(&scene, &["http://127.0.0.1:1"]).0, 2);
    assert_eq!(ask(&scene, &[]).0, 2);
    let silent = host(vec![(path(&scene), b"no JSON".to_vec())]);
    assert_eq!(ask(&scene, &[&silent]).0, 2);
    // A document names no keys; evidence of another image is refused before anybody is asked.
    scene.write("bundle.json", &scene.document);
    assert_eq!(ask(&scene, &["http://127.0.0.1:1"]).0, 2);
}

fn rng() -> rand_chacha::ChaCha20Rng {
    rand_chacha::rand_core::SeedableRng::from_seed([8; 32])
}
