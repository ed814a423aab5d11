//! The computations of the aggregation workloads.

use std::collections::HashMap;
use std::time::Instant;

use aes::cipher::{BlockCipherDecrypt, BlockCipherEncrypt};
use aes_gcm::aead::{Aead, KeyInit, Payload};
use aes_gcm::{Aes128Gcm, Aes256Gcm};
use anyhow::{Context, Result, anyhow, ensure};

use crate::statistics::milliseconds;

/// Entries of the look-up table.
pub const TABLE: usize = 16_000;
/// Key that seals the devices' keys. Not a secret: the workload only measures decryption.
const BLOB_KEY: [u8; 32] = [0x42; 32];
/// Bytes of an entry: device and key.
const ENTRY: usize = 4 + 16;

/// How records are encrypted and summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// As published: AES-128-CBC of one block without authentication; sums wrap.
    Compatible,
    /// AES-128-GCM bound to device and round; non-zero padding and overflowing sums are errors.
    Sound,
}

impl Mode {
    /// Value of the `mode` parameter.
    pub fn name(self) -> &'static str {
        match self {
            Self::Compatible => "compatible",
            Self::Sound => "sound",
        }
    }

    /// Bytes of a record: device, ciphertext and IV; or device, ciphertext with tag, and nonce.
    pub fn record_len(self) -> usize {
        match self {
            Self::Compatible => 4 + 16 + 16,
            Self::Sound => 4 + 32 + 12,
        }
    }
}

/// Result of one round.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Round {
    /// Milliseconds until the data was available.
    pub read_ms: f64,
    /// Milliseconds of the computation.
    pub work_ms: f64,
    /// The sum.
    pub sum: u64,
}

/// Where the computation runs: in this process or in another.
pub trait Executor {
    /// Opens the blob and builds the map of keys. Returns milliseconds.
    ///
    /// # Errors
    /// If the blob cannot be decrypted.
    fn setup(&mut self, blob: &[u8]) -> Result<f64>;

    /// Decrypts and sums one record per device.
    ///
    /// # Errors
    /// If a device is unknown, or, in sound mode, a record is not authentic.
    fn aes_round(&mut self, records: &[u8], round: usize, mode: Mode) -> Result<Round>;

    /// Sums every `rounds`-th value, once for each start: `values` has a device's records next to each other.
    ///
    /// # Errors
    /// In sound mode, if a sum overflows.
    fn terse_sums(&mut self, values: &[u64], rounds: usize, mode: Mode) -> Result<Vec<Round>>;

    /// `sum + table[sum mod 16,000]`, and milliseconds.
    ///
    /// # Errors
    /// If the other process ended.
    fn lookup(&mut self, sum: u64) -> Result<(f64, u64)>;
}

/// Computes in this process.
#[derive(Default)]
pub struct Native {
    keys: HashMap<u32, [u8; 16]>,
    table: Vec<u64>,
}

impl Executor for Native {
    fn setup(&mut self, blob: &[u8]) -> Result<f64> {
        let begun = Instant::now();
        let cipher = Aes256Gcm::new(&BLOB_KEY.into());
        let plain = cipher
            .decrypt(&[0; 12].into(), blob)
            .map_err(|_| anyhow!("the blob of keys does not open"))?;
        self.keys = plain
            .as_chunks::<ENTRY>()
            .0
            .iter()
            .map(|entry| {
                let (mut device, mut key) = ([0; 4], [0; 16]);
                device.copy_from_slice(&entry[..4]);
                key.copy_from_slice(&entry[4..]);
                (u32::from_le_bytes(device), key)
            })
            .collect();
        Ok(milliseconds(begun.elapsed()))
    }

    fn aes_round(&mut self, records: &[u8], round: usize, mode: Mode) -> Result<Round> {
        let begun = Instant::now();
        let mut sum = 0u64;
        for record in records.chunks_exact(mode.record_len()) {
            let (device, rest) = record
                .split_first_chunk::<4>()
                .context("a record is cut short")?;
            let key = self
                .keys
                .get(&u32::from_le_bytes(*device))
                .context("a record of an unknown device")?;
            let value = match mode {
                Mode::Compatible => sum.wrapping_add(cbc(key, rest)?),
                Mode::Sound => {
                    let value = gcm(key, rest, device, round)?;
                    sum.checked_add(value).context("the sum overflows")?
                }
            };
            sum = value;
        }
        Ok(Round {
            read_ms: 0.0,
            work_ms: milliseconds(begun.elapsed()),
            sum,
        })
    }

    fn terse_sums(&mut self, values: &[u64], rounds: usize, mode: Mode) -> Result<Vec<Round>> {
        (0..rounds)
            .map(|round| {
                // Read the first value of the round, so that its page is in memory.
                let begun = Instant::now();
                std::hint::black_box(values.get(round));
                let read_ms = milliseconds(begun.elapsed());
                let begun = Instant::now();
                let mut strided = values.iter().skip(round).step_by(rounds);
                let sum = match mode {
                    Mode::Compatible => strided.fold(0u64, |sum, value| sum.wrapping_add(*value)),
                    Mode::Sound => strided
                        .try_fold(0u64, |sum, value| sum.checked_add(*value))
                        .context("the sum overflows")?,
                };
                let sum = std::hint::black_box(sum);
                Ok(Round {
                    read_ms,
                    work_ms: milliseconds(begun.elapsed()),
                    sum,
                })
            })
            .collect()
    }

    fn lookup(&mut self, sum: u64) -> Result<(f64, u64)> {
        if self.table.is_empty() {
            self.table = table();
        }
        let begun = Instant::now();
        let place = usize::try_from(sum % TABLE as u64)?;
        let found = std::hint::black_box(sum.wrapping_add(self.table[place]));
        Ok((milliseconds(begun.elapsed()), found))
    }
}

/// Decrypts one block of AES-128-CBC without padding: a number and eight zero bytes. As published, the zeros are not checked.
fn cbc(key: &[u8; 16], rest: &[u8]) -> Result<u64> {
    let (cipher, iv) = rest
        .split_first_chunk::<16>()
        .context("a record is cut short")?;
    let mut block = (*cipher).into();
    aes::Aes128::new(&(*key).into()).decrypt_block(&mut block);
    let mut value = [0; 8];
    for (index, byte) in value.iter_mut().enumerate() {
        *byte = block[index] ^ iv[index];
    }
    Ok(u64::from_le_bytes(value))
}

fn gcm(key: &[u8; 16], rest: &[u8], device: &[u8; 4], round: usize) -> Result<u64> {
    let (cipher, nonce) = rest
        .split_first_chunk::<32>()
        .context("a record is cut short")?;
    let nonce: [u8; 12] = nonce.try_into().context("a record is cut short")?;
    let payload = Payload {
        msg: cipher,
        aad: &bound(device, round),
    };
    let plain = Aes128Gcm::new(&(*key).into())
        .decrypt(&nonce.into(), payload)
        .map_err(|_| anyhow!("a record is not authentic"))?;
    let (value, zeros) = plain
        .split_first_chunk::<8>()
        .context("a record is cut short")?;
    ensure!(zeros == [0; 8], "a record's padding is not zero");
    Ok(u64::from_le_bytes(*value))
}

fn bound(device: &[u8; 4], round: usize) -> [u8; 12] {
    let mut bound = [0; 12];
    bound[..4].copy_from_slice(device);
    bound[4..].copy_from_slice(&(round as u64).to_le_bytes());
    bound
}

/// The look-up table: numbers from 1 to 10⁶.
pub fn table() -> Vec<u64> {
    (0..TABLE as u64)
        .map(|index| 1 + mix(index ^ 0x7ab1e) % 1_000_000)
        .collect()
}

/// The value of a device in a round: deterministic, from 1 to 10⁶.
pub fn expected_value(device: usize, round: usize) -> u64 {
    1 + mix(((device as u64) << 20) ^ round as u64) % 1_000_000
}

/// Values of `devices` devices starting with `first`; a device's values are next to each other.
pub fn terse_values(first: usize, devices: usize, rounds: usize) -> Vec<u64> {
    (first..first + devices)
        .flat_map(|device| (0..rounds).map(move |round| expected_value(device, round)))
        .collect()
}

/// Returns the devices' keys, sealed.
///
/// # Errors
/// If there are more devices than identifiers.
pub fn aes_keys(devices: usize) -> Result<Vec<u8>> {
    let mut plain = Vec::with_capacity(devices * ENTRY);
    for device in 0..u32::try_from(devices)? {
        plain.extend_from_slice(&device.to_le_bytes());
        plain.extend_from_slice(&key_of(device));
    }
    let cipher = Aes256Gcm::new(&BLOB_KEY.into());
    cipher
        .encrypt(&[0; 12].into(), plain.as_slice())
        .map_err(|_| anyhow!("the keys cannot be sealed"))
}

/// Returns one record per device.
///
/// # Errors
/// If there are more devices than identifiers.
pub fn aes_records(devices: usize, round: usize, mode: Mode) -> Result<Vec<u8>> {
    let mut records = Vec::with_capacity(devices * mode.record_len());
    for device in 0..u32::try_from(devices)? {
        let mut plain = [0; 16];
        plain[..8].copy_from_slice(&expected_value(device as usize, round).to_le_bytes());
        let key = key_of(device);
        let name = device.to_le_bytes();
        records.extend_from_slice(&name);
        let fresh = ((u128::from(mix(u64::from(device) ^ 0x1f)) << 64)
            | u128::from(mix(round as u64)))
        .to_le_bytes();
        match mode {
            Mode::Compatible => {
                let mixed: [u8; 16] = std::array::from_fn(|index| plain[index] ^ fresh[index]);
                let mut block = mixed.into();
                aes::Aes128::new(&key.into()).encrypt_block(&mut block);
                records.extend_from_slice(&block);
                records.extend_from_slice(&fresh);
            }
            Mode::Sound => {
                // Each device has its own key, so the round alone makes the nonce unique.
                let nonce = bound(&[0; 4], round);
                let payload = Payload {
                    msg: &plain,
                    aad: &bound(&name, round),
                };
                let sealed = Aes128Gcm::new(&key.into())
                    .encrypt(&nonce.into(), payload)
                    .map_err(|_| anyhow!("a record cannot be sealed"))?;
                records.extend_from_slice(&sealed);
                records.extend_from_slice(&nonce);
            }
        }
    }
    Ok(records)
}

fn key_of(device: u32) -> [u8; 16] {
    let (low, high) = (
        mix(u64::from(device) ^ 0x5eed),
        mix(u64::from(device) ^ 0x5eed_0000_0000),
    );
    ((u128::from(high) << 64) | u128::from(low)).to_le_bytes()
}

/// SplitMix64's output function: every input bit affects every output bit.
fn mix(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expected(devices: usize, round: usize) -> u64 {
        (0..devices)
            .map(|device| expected_value(device, round))
            .sum()
    }

    #[test]
    fn both_modes_find_the_sum_that_was_encrypted() {
        let mut native = Native::default();
        native.setup(&aes_keys(100).unwrap()).unwrap();
        for mode in [Mode::Compatible, Mode::Sound] {
            for round in 0..3 {
                let records = aes_records(100, round, mode).unwrap();
                assert_eq!(records.len(), 100 * mode.record_len());
                assert_eq!(
                    native.aes_round(&records, round, mode).unwrap().sum,
                    expected(100, round)
                );
            }
        }
    }

    #[test]
    fn the_sound_mode_refuses_what_the_compatible_one_adds() {
        let mut native = Native::default();
        native.setup(&aes_keys(4).unwrap()).unwrap();
        for (mode, refused) in [(Mode::Compatible, false), (Mode::Sound, true)] {
            let mut records = aes_records(4, 0, mode).unwrap();
            records[10] ^= 1;
            assert_eq!(
                native.aes_round(&records, 0, mode).is_err(),
                refused,
                "{mode:?}, flipped"
            );
            let replayed = aes_records(4, 0, mode).unwrap();
            assert_eq!(
                native.aes_round(&replayed, 1, mode).is_err(),
                refused,
                "{mode:?}, replayed"
            );
        }
    }

    #[test]
    fn invalid_keys_and_unknown_devices_are_errors() {
        let mut native = Native::default();
        let mut blob = aes_keys(4).unwrap();
        blob[0] ^= 1;
        assert!(native.setup(&blob).is_err());
        let records = aes_records(1, 0, Mode::Compatible).unwrap();
        assert!(native.aes_round(&records, 0, Mode::Compatible).is_err());
    }

    #[test]
    fn strided_sums_are_those_of_the_rounds() {
        let values = terse_values(0, 50, 7);
        for mode in [Mode::Compatible, Mode::Sound] {
            let rounds = Native::default().terse_sums(&values, 7, mode).unwrap();
            let sums: Vec<u64> = rounds.iter().map(|round| round.sum).collect();
            assert_eq!(
                sums,
                (0..7).map(|round| expected(50, round)).collect::<Vec<_>>()
            );
        }
        assert!(
            Native::default()
                .terse_sums(&[u64::MAX, 1], 1, Mode::Sound)
                .is_err()
        );
    }

    #[test]
    fn numbers_are_between_one_and_a_million() {
        assert!(
            table()
                .iter()
                .chain(&terse_values(0, 100, 10))
                .all(|value| (1..=1_000_000).contains(value))
        );
        assert_eq!(table().len(), TABLE);
    }
}
