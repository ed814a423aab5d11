//! The sealed model and its key over vsock: to the image that the key's policy names, and to no other.

use crate::sealed::embedding;
use crate::support::{Booted, Client, Kms, Proxy, image, measurements};

#[test]
fn the_sealed_model_opens_in_the_image_of_the_keys_policy_alone() {
    // The same key and container, and a policy that names another image.
    let refused = Booted::boot(&image("sealed"));
    let kms = Kms::releases_to("sign");
    let proxy = kms.proxy(&refused);
    let said = refused.ends();
    assert!(said.contains("KEY_RELEASE_DENIED"), "{said}");
    assert!(!said.contains("\"ready\""), "{said}");
    drop((proxy, kms, refused));

    let machine = Booted::boot(&image("sealed"));
    let kms = Kms::releases_to("sealed");
    let proxy: Proxy = kms.proxy(&machine);
    let said = machine.says("\"ready\"");
    assert!(said.contains("KMS_SIMULATED"), "{said}");
    proxy.ready();
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
