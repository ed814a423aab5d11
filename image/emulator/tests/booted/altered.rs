//! One changed bit of an image: detected by its checksum or by its measurements.

use image::Eif;

use crate::support::{Booted, Client, Proxy, image as built, measurements, stderr_of};

#[test]
fn a_damaged_image_does_not_boot() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("enclave.eif");
    let mut file = std::fs::read(built("probe")).unwrap();
    let middle = file.len() / 2;
    file[middle] ^= 1;
    assert!(matches!(
        Eif::parse(&file),
        Err(image::EifError::Checksum { .. })
    ));
    std::fs::write(&path, &file).unwrap();
    let console = Booted::boot(&path).wait_for_end();
    assert!(!console.contains("init:"), "{console}");
}

/// The checksum was corrected and everything else works: only the measurements differ.
#[test]
fn an_altered_image_boots_and_is_refused_by_its_measurements() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("enclave.eif");
    let mut altered = Eif::parse(&std::fs::read(built("sign")).unwrap()).unwrap();
    // One bit: loglevel=4 becomes loglevel=5.
    altered.command_line = altered.command_line.replace("loglevel=4", "loglevel=5");
    let other = serde_json::to_value(altered.measure()).unwrap();
    let released = measurements("sign");
    assert_ne!(other["0"], released["0"]);
    assert_eq!(other["2"], released["2"]);
    std::fs::write(&path, altered.to_bytes().unwrap()).unwrap();

    let machine = Booted::boot(&path);
    machine.wait_for_output("\"ready\"");
    let (proxy, client) = (Proxy::start(&machine.address()), Client::new());
    proxy.wait_until_ready();
    let refused = client
        .embed(&proxy.url(), &proxy.policy(&released), "never sent")
        .wait_with_output()
        .unwrap();
    assert!(!refused.status.success() && refused.stdout.is_empty());
    assert!(
        stderr_of(&refused).contains("PCR_MISMATCH"),
        "{}",
        stderr_of(&refused)
    );
    // It serves requests, and reports its own measurements.
    let verified = client.file("altered.json", proxy.policy(&other).to_string().as_bytes());
    let (_, evidence) = proxy.get("/v1/attestation?nonce=BwcHBwcHBwcHBwcHBwcHBw");
    let evidence = client.file("evidence.cbor", &evidence);
    let output = client.run(&[
        "verify",
        "attestation",
        evidence.to_str().unwrap(),
        "--policy",
        verified.to_str().unwrap(),
        "--nonce",
        &"07".repeat(16),
        "--accept-simulated",
    ]);
    assert!(output.status.success(), "{}", stderr_of(&output));
}
