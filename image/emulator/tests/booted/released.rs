//! The sealed model and its key over vsock: released to the image that the key's policy names, and to no other.

use crate::sealed::embedding;
use crate::support::{Booted, Client, Kms, Proxy, image, measurements};

#[test]
fn the_sealed_model_opens_only_in_the_image_of_the_keys_policy() {
    // The same key and container, with a policy that names another image.
    let refused = Booted::boot(&image("sealed"));
    let kms = Kms::releasing_to("sign");
    let proxy = kms.proxy(&refused);
    let console = refused.wait_for_end();
    assert!(console.contains("KEY_RELEASE_DENIED"), "{console}");
    assert!(!console.contains("\"ready\""), "{console}");
    drop((proxy, kms, refused));

    let machine = Booted::boot(&image("sealed"));
    let kms = Kms::releasing_to("sealed");
    let proxy: Proxy = kms.proxy(&machine);
    let console = machine.wait_for_output("\"ready\"");
    assert!(console.contains("KMS_SIMULATED"), "{console}");
    proxy.wait_until_ready();
    let (_, told) = proxy.get("/readyz");
    let told = String::from_utf8(told).unwrap();
    assert!(told.contains("simulated KMS"), "{told}");

    let (client, policy) = (Client::new(), proxy.policy(&measurements("sealed")));
    let output = client
        .embed(&proxy.url(), &policy, "by a model that came sealed")
        .wait_with_output()
        .unwrap();
    embedding(&output);
}
