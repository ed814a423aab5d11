//! NitroTPM measurements of an EC2 instance to which a key is released in addition to enclaves.

use std::collections::BTreeMap;

use error_codes::Coded;

use crate::json::Json;

/// An attestable EC2 instance, by its NitroTPM measurements. Compared as a set, like the registers of a release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// A name for reports.
    pub name: String,
    /// NitroTPM registers by index, SHA-384 each. PCR4 (the boot loader and what it starts) and PCR12 (the kernel's command
    /// line) are among them; PCR4 is not zero.
    pub pcrs: BTreeMap<u8, [u8; 48]>,
}

/// The text does not identify an instance.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Coded)]
#[error("the measurements of the instance are not usable: {0}")]
#[coded(
    "INSTANCE_MEASUREMENTS",
    remedy = "Give the JSON that nitro-tpm-pcr-compute prints for the attestable AMI, with PCR4 and PCR12."
)]
pub struct InstanceError(String);

impl Instance {
    /// Reads the output of AWS's `nitro-tpm-pcr-compute` for an image:
    /// `{"Measurements": {"HashAlgorithm": "SHA384 { ... }", "PCR4": "…", "PCR7": "…", "PCR12": "…"}}`.
    ///
    /// # Errors
    /// [`InstanceError`]: not of this form, another hash, a register that is not 96 hexadecimal digits, no PCR4 or PCR12, or a
    /// PCR4 of zeros, which every instance without measured boot has.
    pub fn parse(name: &str, json: &[u8]) -> Result<Self, InstanceError> {
        let document: Json =
            serde_json::from_slice(json).map_err(|error| InstanceError(error.to_string()))?;
        let entries = match document {
            Json::Map(entries) => entries,
            _ => return refuse("it is not a JSON object"),
        };
        let [(outer, Json::Map(measurements))] = entries.as_slice() else {
            return refuse("it holds something else than Measurements");
        };
        if outer != "Measurements" {
            return refuse("it holds something else than Measurements");
        }
        let mut pcrs = BTreeMap::new();
        let mut sha384 = false;
        for (key, value) in measurements {
            let Json::Text(value) = value else {
                return Err(InstanceError(format!("{key:?} is not a text")));
            };
            if key == "HashAlgorithm" {
                sha384 = value.starts_with("SHA384");
                continue;
            }
            let register = key
                .strip_prefix("PCR")
                .and_then(|index| index.parse::<u8>().ok())
                .filter(|index| *index < REGISTERS && *key == format!("PCR{index}"))
                .ok_or_else(|| InstanceError(format!("{key:?} is not a register")))?;
            let mut measurement = [0; 48];
            let is_complete = base16ct::mixed::decode(value, &mut measurement)
                .is_ok_and(|bytes| bytes.len() == 48);
            if !is_complete {
                return Err(InstanceError(format!("{key} is not 96 hexadecimal digits")));
            }
            pcrs.insert(register, measurement);
        }
        if !sha384 {
            return refuse("HashAlgorithm is not SHA384");
        }
        if pcrs.get(&4).is_none_or(|value| *value == [0; 48]) {
            return refuse("PCR4 is missing or zero, so it does not name an image");
        }
        if !pcrs.contains_key(&12) {
            return refuse("PCR12 is missing, so any kernel command line would do");
        }
        Ok(Self {
            name: name.to_owned(),
            pcrs,
        })
    }
}

/// A TPM 2.0 of the PC Client profile has registers 0 to 23.
pub(crate) const REGISTERS: u8 = 24;

fn refuse<T>(reason: &str) -> Result<T, InstanceError> {
    Err(InstanceError(reason.to_owned()))
}
