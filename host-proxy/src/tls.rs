//! TLS towards stores of models and KMS.

/// Makes `ring` the provider of cryptography for every client in this process that names none. Once is enough.
pub(crate) fn provide() {
    // An error means that one is there already.
    rustls::crypto::ring::default_provider()
        .install_default()
        .ok();
}
