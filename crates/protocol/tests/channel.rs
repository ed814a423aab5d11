//! The attested channel against everything that a host or a network can do to its bytes.
#![allow(missing_docs)]
#![allow(clippy::unwrap_used)]

use attestation::{Aead, Evidence, Kem, Policy, SignatureMemory};
use fixtures::channel::{
    AES, BOTH, CHACHA, CLASSIC, END, START, connect, frame, judge, open, options,
};
use fixtures::enclave::{Enclave, NOW};
use fixtures::rng;
use protocol::channel::frame::Kind;
use protocol::channel::{
    Accepted, ChannelError, ClientOptions, PendingClient, ReceivedHello, Session, begin,
};
use protocol::receipt::ReceiptSigner;

#[test]
fn a_session_carries_both_directions_in_every_suite() {
    let mut enclave = Enclave::start(1);
    for (kems, client_aeads, server_aeads, expected) in [
        (BOTH, AES, AES, Aead::Aes256Gcm),
        (BOTH, AES, CHACHA, Aead::ChaCha20Poly1305),
        (CLASSIC, CHACHA, AES, Aead::ChaCha20Poly1305),
        (CLASSIC, CHACHA, CHACHA, Aead::ChaCha20Poly1305),
        (CLASSIC, &AES[..1], CHACHA, Aead::Aes256Gcm),
    ] {
        let options = ClientOptions {
            aeads: client_aeads,
            ..options(kems)
        };
        let (mut client, mut server, _) = connect(&mut enclave, options, server_aeads, 2);
        assert_eq!((client.aead, server.aead), (expected, expected));
        assert_eq!(client.id, server.id);
        for payload in [&b""[..], b"a question", &[7; 5_000]] {
            let up = frame(&mut client.sender, Kind::Data, payload);
            assert_eq!(
                open(&mut server.receiver, &up).unwrap(),
                (Kind::Data, payload.to_vec())
            );
            let down = frame(&mut server.sender, Kind::Tensor, payload);
            assert_eq!(
                open(&mut client.receiver, &down).unwrap(),
                (Kind::Tensor, payload.to_vec())
            );
        }
    }
}

#[test]
fn an_attested_receipt_key_endorses_the_next_session() {
    let mut enclave = Enclave::start(1);
    let (.., verified) = connect(&mut enclave, options(BOTH), AES, 3);
    let again = ClientOptions {
        known: Some(&verified),
        ..options(BOTH)
    };
    let (mut client, mut server, _) = connect(&mut enclave, again, AES, 4);
    let up = frame(&mut client.sender, Kind::Data, b"again");
    assert_eq!(open(&mut server.receiver, &up).unwrap().1, b"again");

    // Another enclave's endorsement, a signature for another hello, and one after the end.
    let mut rng = rng(5);
    let endorse = |signer, hello: &[u8]| {
        let prepared = ReceivedHello::read(hello, AES)
            .unwrap()
            .prepare(&mut fixtures::rng(6));
        prepared.endorse(signer, false).unwrap().0
    };
    let other = Enclave::start(9);
    let (hello, awaiting) = begin(again, &mut rng).unwrap();
    let answer = endorse(&other.signer, &hello);
    assert_eq!(
        judge(awaiting, &answer, &enclave.policy).err().as_deref(),
        Some("ENDORSEMENT_SIGNATURE")
    );
    let (first, _) = begin(again, &mut rng).unwrap();
    let (_, awaiting) = begin(again, &mut rng).unwrap();
    let answer = endorse(&enclave.signer, &first);
    assert_eq!(
        judge(awaiting, &answer, &enclave.policy).err().as_deref(),
        Some("ENDORSEMENT_SIGNATURE")
    );
    let late = attestation::UnixMillis(verified.valid_until().0 + 1);
    assert_eq!(
        verified
            .endorsed_keys(&[0; 32], b"", &[0; 64], late)
            .err()
            .map(|error| error.code()),
        Some("ENDORSEMENT_EXPIRED")
    );
    // A client that has verified nothing accepts no endorsement.
    let (hello, awaiting) = begin(options(BOTH), &mut rng).unwrap();
    let answer = endorse(&enclave.signer, &hello);
    assert_eq!(
        judge(awaiting, &answer, &enclave.policy).err().as_deref(),
        Some("CHANNEL_UNASKED_ENDORSEMENT")
    );
}

/// Truncates and changes every byte of every handshake message: neither end ever gets a session with the other.
#[test]
fn no_byte_of_the_handshake_can_be_changed_or_left_out() {
    let mut enclave = Enclave::start(1);
    let (.., verified) = connect(&mut enclave, options(CLASSIC), AES, 3);
    // Endorsed, so that a changed bit costs one signature instead of five.
    let options = ClientOptions {
        known: Some(&verified),
        ..options(CLASSIC)
    };
    let run = |change: &dyn Fn(usize, &mut Vec<u8>)| -> Result<(), String> {
        let code = |error: ChannelError| error.code().to_owned();
        let mut rng = rng(7);
        let (mut hello, awaiting) = begin(options, &mut rng).map_err(code)?;
        change(0, &mut hello);
        let arrival = ReceivedHello::read(&hello, AES).map_err(code)?;
        let endorsed = arrival.prepare(&mut rng).endorse(&enclave.signer, false);
        let (mut answer, awaiting_key) = endorsed.map_err(code)?;
        change(1, &mut answer);
        let attested = judge(awaiting, &answer, &enclave.policy)?;
        let (mut key, _) = attested.finish(START, &mut rng).map_err(code)?;
        change(2, &mut key);
        awaiting_key.receive(&key, START, END).map_err(code)?;
        Ok(())
    };
    let lengths = std::cell::RefCell::new([0; 3]);
    run(&|at, message| lengths.borrow_mut()[at] = message.len()).unwrap();
    let lengths = lengths.into_inner();
    assert!(lengths.iter().all(|length| *length > 50), "{lengths:?}");
    for (message, length) in lengths.into_iter().enumerate() {
        for at in 0..length {
            for change in [0x01, 0x80, 0xff] {
                let outcome = run(&|which, bytes| {
                    if which == message {
                        bytes[at] ^= change;
                    }
                });
                assert!(outcome.is_err(), "message {message}, byte {at} ^ {change}");
            }
            let cut = run(&|which, bytes| {
                if which == message {
                    bytes.truncate(at);
                }
            });
            assert!(cut.is_err(), "message {message} cut to {at}");
        }
        let longer = run(&|which, bytes| {
            if which == message {
                bytes.push(0);
            }
        });
        assert!(longer.is_err(), "message {message} with a byte more");
    }
}

/// The attestation crate tests changes of a document's bytes; this test shows that the channel depends on each of its parts.
#[test]
fn a_document_answers_one_hello_and_binds_one_key() {
    let mut enclave = Enclave::start(1);
    let mut rng = rng(8);
    let (first, _) = begin(options(CLASSIC), &mut rng).unwrap();
    let (_, awaiting) = begin(options(CLASSIC), &mut rng).unwrap();
    let prepared = ReceivedHello::read(&first, AES).unwrap().prepare(&mut rng);
    let (answer, _) = enclave.answer_hello(prepared);
    assert_eq!(
        judge(awaiting, &answer, &enclave.policy).err().as_deref(),
        Some("NONCE_MISMATCH")
    );

    // The host requests a document for this hello over keys of the service, and offers its own key.
    let (hello, awaiting) = begin(options(CLASSIC), &mut rng).unwrap();
    let genuine = ReceivedHello::read(&hello, AES).unwrap().prepare(&mut rng);
    let (document, _) = enclave.evidence(&genuine.nonce(), genuine.configs());
    let host = ReceivedHello::read(&hello, AES).unwrap().prepare(&mut rng);
    let (_, manifest) = enclave.evidence(&host.nonce(), host.configs());
    let (answer, _) = host.document(
        Evidence {
            document: &document,
            manifest: &manifest,
        },
        false,
    );
    assert_eq!(
        judge(awaiting, &answer, &enclave.policy).err().as_deref(),
        Some("MANIFEST_MISMATCH")
    );

    // A document under another root.
    let mut other = Enclave::start(2);
    let (hello, awaiting) = begin(options(CLASSIC), &mut rng).unwrap();
    let prepared = ReceivedHello::read(&hello, AES).unwrap().prepare(&mut rng);
    let (answer, _) = other.answer_hello(prepared);
    assert!(judge(awaiting, &answer, &enclave.policy).is_err());
}

/// Mechanism and cipher come from attested keys, and a hello that offers less is another hello.
#[test]
fn an_attacker_on_the_path_cannot_choose_a_weaker_suite() {
    let mut enclave = Enclave::start(1);
    let mut rng = rng(10);
    let (_, awaiting) = begin(options(BOTH), &mut rng).unwrap();
    let (weaker, _) = begin(options(CLASSIC), &mut rng).unwrap();
    let prepared = ReceivedHello::read(&weaker, AES).unwrap().prepare(&mut rng);
    let (answer, _) = enclave.answer_hello(prepared);
    assert!(judge(awaiting, &answer, &enclave.policy).is_err());

    let (hello, awaiting) = begin(options(BOTH), &mut rng).unwrap();
    let prepared = ReceivedHello::read(&hello, AES).unwrap().prepare(&mut rng);
    let (answer, _) = enclave.answer_hello(prepared);
    let attested = judge(awaiting, &answer, &enclave.policy).unwrap();
    assert_eq!(attested.kem(), Kem::XWing);
    assert!(ReceivedHello::read(&hello, &[]).is_err());
}

/// A client that has presented evidence of `caller` to `enclave`, signed by `signer`, and its own end of the session.
fn present(
    enclave: &mut Enclave,
    caller: &mut Enclave,
    signer: Option<&ReceiptSigner>,
) -> (PendingClient, Session) {
    let has_evidence = ClientOptions {
        has_evidence: true,
        ..options(CLASSIC)
    };
    let mut rng = rng(11);
    let (hello, awaiting) = begin(has_evidence, &mut rng).unwrap();
    let arrival = ReceivedHello::read(&hello, AES).unwrap();
    assert!(arrival.has_evidence());
    let (answer, awaiting_key) = enclave.answer_hello_with(arrival.prepare(&mut rng), true);
    let attested = judge(awaiting, &answer, &enclave.policy).unwrap();
    assert!(attested.wants_evidence());
    let encapsulated = attested.encapsulate(START, &mut rng).unwrap();
    let keys = vec![attestation::KeyConfig {
        key_id: 0,
        kem: Kem::X25519,
        public_key: vec![9; 32],
        symmetric: vec![(attestation::Kdf::HkdfSha256, Aead::Aes256Gcm)],
    }];
    let (document, manifest) = caller.evidence(&encapsulated.nonce(), keys);
    let evidence = Evidence {
        document: &document,
        manifest: &manifest,
    };
    let (key, client) = encapsulated
        .with_evidence(evidence, signer.unwrap_or(&caller.signer))
        .unwrap();
    let Accepted::WithEvidence(pending) = awaiting_key.receive(&key, START, END).unwrap() else {
        panic!("evidence was asked for");
    };
    (pending, client)
}

#[test]
fn the_client_signs_with_the_key_that_its_own_document_binds() {
    let mut enclave = Enclave::start(1);
    let mut caller = Enclave::start(20);
    let other = Enclave::start(21);
    for (signer, expected) in [(None, None), (Some(&other.signer), Some("CHANNEL_FORGED"))] {
        let (pending, mut client) = present(&mut enclave, &mut caller, signer);
        let (_, judged) = pending.appraise(&caller.policy, NOW, &mut SignatureMemory::new());
        let outcome = judged.including_simulated();
        assert_eq!(outcome.as_ref().err().map(|error| error.code()), expected);
        if let Ok((mut server, who)) = outcome {
            assert_eq!(who.receipt_key().bytes(), &caller.signer.public_key());
            let up = frame(&mut client.sender, Kind::Data, b"from an enclave");
            assert!(open(&mut server.receiver, &up).is_ok());
        }
    }
    // Requested and not presented, at both ends.
    let mut rng = rng(12);
    let (hello, awaiting) = begin(options(CLASSIC), &mut rng).unwrap();
    let prepared = ReceivedHello::read(&hello, AES).unwrap().prepare(&mut rng);
    let (answer, _) = enclave.answer_hello_with(prepared, true);
    let attested = judge(awaiting, &answer, &enclave.policy).unwrap();
    assert_eq!(
        attested.finish(START, &mut rng).err(),
        Some(ChannelError::EvidenceWanted)
    );
}

#[test]
fn a_client_is_judged_with_the_revocation_lists_that_the_server_has() {
    let mut enclave = Enclave::start(1);
    let mut caller = Enclave::start(20);
    let mut required: serde_json::Value = serde_json::from_str(&caller.policy.to_json()).unwrap();
    required["revocation"] = "required".into();
    let required = Policy::chosen_by_hand(required.to_string().as_bytes()).unwrap();
    let forgery = caller.issuer.forge(&forge::Contents::example(), NOW.0);
    let mut regional = forgery.crl(1);
    regional.entries.push(forgery.revocation(2));
    let (current, revoking) = (forgery.crls(), forgery.sign_crl(&regional, 1));
    let when_given = caller.policy.clone();
    for (policy, lists, expected) in [
        (&when_given, &[][..], None),
        (&when_given, &current, None),
        (&when_given, &revoking, Some("CERTIFICATE_REVOKED")),
        (&required, &[], Some("REVOCATION_UNKNOWN")),
        (&required, &current, None),
        (&required, &revoking, Some("CERTIFICATE_REVOKED")),
    ] {
        let (pending, _) = present(&mut enclave, &mut caller, None);
        let pending = pending.with_crls(lists.to_vec());
        let (report, judged) = pending.appraise(policy, NOW, &mut SignatureMemory::new());
        assert_eq!(report.code.as_deref(), expected);
        let session = judged.including_simulated();
        assert_eq!(session.is_ok(), expected.is_none());
    }
}
