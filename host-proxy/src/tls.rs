//! TLS for the connections to model stores and KMS.

/// Installs `ring` as the process's default provider of cryptography, where none is installed.
pub(crate) fn install_provider() {
    // An error means that a provider is already installed.
    rustls::crypto::ring::default_provider()
        .install_default()
        .ok();
}
