//! A sealed embedding from a booted image, under the measurements that its builder printed.

use serde_json::{Value, json};

use crate::support::{Booted, Client, Proxy, image, measurements, stderr_of};

#[test]
fn a_line_is_embedded_under_the_builders_measurements_and_a_restart_is_survived() {
    let machine = Booted::boot(&image("sign"));
    let console = machine.wait_for_output("\"ready\"");
    assert!(console.contains("NSM_SIMULATED"), "{console}");
    let (proxy, client) = (Proxy::start(&machine.address()), Client::new());
    proxy.wait_until_ready();
    let policy = proxy.policy(&measurements("sign"));

    let output = client
        .embed(&proxy.url(), &policy, "a line that the host cannot read")
        .wait_with_output()
        .unwrap();
    embedding(&output);
    // The console, which the host can read, contains nothing of the text.
    assert!(
        !machine
            .wait_for_output("\"ready\"")
            .contains("the host cannot read")
    );

    for register in ["0", "1", "2"] {
        let mut other = measurements("sign");
        other[register] = json!("a5".repeat(48));
        let refused = client
            .embed(&proxy.url(), &proxy.policy(&other), "never sent")
            .wait_with_output()
            .unwrap();
        assert!(!refused.status.success() && refused.stdout.is_empty());
        assert!(
            stderr_of(&refused).contains("PCR_MISMATCH"),
            "PCR{register}: {}",
            stderr_of(&refused)
        );
    }

    // A request is in progress when the enclave ends: inference takes seconds here.
    let under_way = client.embed(&proxy.url(), &policy, "lost with its enclave");
    let machine = machine.restart(&image("sign"));
    let lost = under_way.wait_with_output().unwrap();
    assert!(!lost.status.success() && lost.stdout.is_empty());
    machine.wait_for_output("\"ready\"");
    proxy.wait_until_ready();

    // The new enclave has another root, because a simulation creates one at each start: the old policy refuses it.
    let refused = client
        .embed(&proxy.url(), &policy, "never sent")
        .wait_with_output()
        .unwrap();
    assert!(!refused.status.success() && refused.stdout.is_empty());
    let renewed = proxy.policy(&measurements("sign"));
    assert_ne!(renewed["root"], policy["root"]);
    let output = client
        .embed(&proxy.url(), &renewed, "after the restart")
        .wait_with_output()
        .unwrap();
    embedding(&output);
}

pub(crate) fn embedding(output: &std::process::Output) {
    assert!(output.status.success(), "{}", stderr_of(output));
    let line: Value = serde_json::from_slice(&output.stdout).unwrap();
    let vector: Vec<f64> = line["embedding"]
        .as_array()
        .unwrap()
        .iter()
        .map(|number| number.as_f64().unwrap())
        .collect();
    assert_eq!(vector.len(), 384);
    let length: f64 = vector.iter().map(|number| number * number).sum();
    assert!((length - 1.0).abs() < 1e-4, "{length}");
}
