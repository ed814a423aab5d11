//! The enclave has no dynamic loader and no C library: its binary must bring everything.

use crate::statics;
use anyhow::Result;

pub(crate) fn enclave() -> Result<Option<String>> {
    statics::build()?;
    let binary = statics::folder()?.join("enclave-server");
    let bytes = statics::check(&binary)?;
    println!("enclave-server: static, {} MiB", bytes >> 20);
    Ok(None)
}
