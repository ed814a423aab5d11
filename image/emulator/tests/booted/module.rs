//! The emulated module: every call, every limit, and unsigned documents.

use std::io::{Read as _, Write as _};

use base64ct::{Base64UrlUnpadded, Encoding};
use serde_json::{Value, json};

use crate::support::{Booted, Client, Proxy, image, measurements, stderr_of};

#[test]
fn every_call_of_the_module_is_answered_as_documented_and_its_documents_are_refused() {
    let machine = Booted::boot(&image("probe"));
    let console = machine.wait_for_output(r#""question":"serving""#);
    every_call(&console);
    large_answers_arrive(&machine);
    large_payloads_come_back(&machine);
    unsigned_documents_are_refused(&machine);
}

fn every_call(console: &str) {
    let answers: Vec<Value> = console
        .lines()
        .filter_map(|line| line.trim().strip_prefix("probe "))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let answer = |question: &str| {
        answers
            .iter()
            .find(|line| line["question"] == question)
            .map(|line| line["answer"].clone())
            .unwrap_or_else(|| panic!("no answer to `{question}`:\n{console}"))
    };
    assert_eq!(answer("device"), json!(true));
    let described = answer("describe");
    assert_eq!(described["registers"], 32, "{described}");
    assert_eq!(described["digest"], "SHA384", "{described}");
    assert_eq!(described["locked"], 16, "{described}");

    // A register holds the hash of its old value and of the extension.
    let extended = answer("extend again");
    assert_ne!(answer("extend"), extended);
    assert_eq!(answer("extended"), json!([false, extended]));
    assert_eq!(answer("extend the image's"), "ReadOnlyIndex");
    assert_eq!(answer("no such register"), "InvalidIndex");

    let pcrs = answer("pcrs");
    for (index, value) in measurements("probe").as_object().unwrap() {
        assert_eq!(&pcrs[index], value, "PCR{index}");
    }
    assert_eq!(answer("distinct random answers"), 4);
    assert_eq!(answer("simulated"), json!(false));
    for question in ["attest the least", "attest the most"] {
        assert_eq!(answer(question), json!(true), "{question}");
    }
    for question in [
        "nonce too short",
        "nonce too long",
        "user_data too long",
        "public_key too long",
        "user_data empty",
    ] {
        assert_eq!(answer(question), "NSM_FIELD_SIZE", "{question}");
    }
    assert_eq!(answer("time"), "NSM_ANSWER_INVALID");

    // Sixteen were locked from the start, the others by the server.
    assert_eq!(answer("registers that refuse"), 32);
    assert_eq!(answer("lock again"), "ReadOnlyIndex");
}

/// An answer too large for a single write.
fn large_answers_arrive(machine: &Booted) {
    let body = machine.get("/large");
    assert_eq!(body.len(), 1 << 20);
    assert!(body.iter().all(|byte| *byte == b'x'));
}

/// Both directions of one connection, as in the benchmark `sockets`.
fn large_payloads_come_back(machine: &Booted) {
    let mut stream = machine.connect_to(5006);
    for length in [0, 1, 64 << 10, 1 << 20] {
        let sent: Vec<u8> = (0..=u8::MAX).cycle().take(length).collect();
        stream.write_all(&(length as u64).to_le_bytes()).unwrap();
        stream.write_all(&sent).unwrap();
        let mut back = vec![0; length];
        stream.read_exact(&mut back).unwrap();
        assert!(back == sent, "{length} bytes");
    }
}

fn unsigned_documents_are_refused(machine: &Booted) {
    let (proxy, client) = (Proxy::start(&machine.address()), Client::new());
    proxy.wait_until_ready();
    let (head, evidence) = proxy.get(&format!(
        "/v1/attestation?nonce={}",
        Base64UrlUnpadded::encode_string(&[7; 32])
    ));
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    // Everything in the document is right, except the signature.
    let policy = json!({
        "format": "clearseal-trust-policy/1",
        "name": "production",
        "root": "aws-nitro-enclaves-g1",
        "releases": [{ "name": "probe", "pcrs": measurements("probe") }],
        "security_mode": "production",
        "policy_version": "1",
        "model": { "id": "all-MiniLM-L6-v2", "sha256": "00".repeat(32) },
    });
    let evidence = client.file("evidence.cbor", &evidence);
    let policy_file = client.file("policy.json", policy.to_string().as_bytes());
    let nonce = "07".repeat(32);
    for accept in [&[][..], &["--accept-simulated", "--accept-authentic"]] {
        let arguments = [
            &[
                "verify",
                "attestation",
                evidence.to_str().unwrap(),
                "--json",
            ][..],
            &["--policy", policy_file.to_str().unwrap()],
            &["--nonce", &nonce],
            accept,
        ]
        .concat();
        let output = client.run(&arguments);
        assert!(
            !output.status.success(),
            "an unsigned document was accepted"
        );
        let report = String::from_utf8_lossy(&output.stdout);
        assert!(report.contains("ALGORITHM_REFUSED"), "{report}");
    }
    let refused = client
        .embed(&proxy.url(), &policy, "never sent")
        .wait_with_output()
        .unwrap();
    assert!(!refused.status.success());
    assert!(refused.stdout.is_empty());
    assert!(
        stderr_of(&refused).contains("ALGORITHM_REFUSED"),
        "{}",
        stderr_of(&refused)
    );
}

/// No client could use them, so the server refuses to start, and the enclave ends.
#[test]
fn the_server_does_not_start_with_unsigned_documents() {
    let console = Booted::boot(&image("plain")).wait_for_end();
    assert!(
        console.contains("random bytes of the NSM mixed in"),
        "{console}"
    );
    assert!(console.contains("NSM_ANSWER_INVALID"), "{console}");
    assert!(
        console.contains("init: the server ended: status 1"),
        "{console}"
    );
    assert!(!console.contains("\"ready\""), "{console}");
}
