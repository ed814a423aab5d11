//! The enclave has no dynamic loader and no C library: its binary must bring everything.

use crate::statics;
use anyhow::{Context, Result, bail, ensure};

/// Program header type of a dynamic loader's path (System V ABI, PT_INTERP).
const INTERPRETER: u32 = 3;

pub(crate) fn enclave() -> Result<Option<String>> {
    statics::build()?;
    let binary = statics::folder()?.join("enclave-server");
    let bytes =
        std::fs::read(&binary).with_context(|| format!("cannot read {}", binary.display()))?;
    ensure!(
        !has_interpreter(&bytes)?,
        "{} asks for a dynamic loader; some dependency links a shared library",
        binary.display()
    );
    println!("enclave-server: static, {} MiB", bytes.len() >> 20);
    Ok(None)
}

/// Whether a 64-bit little-endian ELF file names a dynamic loader.
fn has_interpreter(elf: &[u8]) -> Result<bool> {
    ensure!(
        elf.starts_with(b"\x7fELF\x02\x01"),
        "not a 64-bit little-endian ELF file"
    );
    let number = |at: usize, size: usize| -> Result<usize> {
        let bytes = at
            .checked_add(size)
            .and_then(|end| elf.get(at..end))
            .context("the ELF file is cut short")?;
        Ok(bytes
            .iter()
            .rev()
            .fold(0, |number, byte| (number << 8) | usize::from(*byte)))
    };
    let (table, entry_size, entries) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
    if entries == 0 {
        bail!("the ELF file has no program headers");
    }
    for index in 0..entries {
        let at = index
            .checked_mul(entry_size)
            .and_then(|offset| offset.checked_add(table));
        if number(at.context("the ELF file is malformed")?, 4)? == INTERPRETER as usize {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::has_interpreter;

    #[test]
    fn a_dynamic_program_is_recognised() {
        // This test is one, wherever it runs with glibc.
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert_eq!(has_interpreter(&own).unwrap(), cfg!(target_env = "gnu"));
        assert!(has_interpreter(&own[..40]).is_err());
        assert!(has_interpreter(b"#!/bin/sh").is_err());
    }
}
