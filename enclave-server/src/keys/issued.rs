//! The attestation documents that this process has issued for a key generation.
//!
//! Every client gets a separate document, for its nonce, and a receipt has to name the document that its client verified. The
//! client states that document's hash in the sealed request, and the service accepts only hashes in this set.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::nsm::Validity;

/// SHA-256 hashes of issued documents. Bounded: when full, it drops the least recently used half.
pub struct IssuedDocuments {
    half: usize,
    sets: Mutex<Sets>,
}

impl IssuedDocuments {
    /// Remembers at least `capacity / 2` and at most `capacity` documents.
    pub fn new(capacity: usize) -> Self {
        Self {
            half: (capacity / 2).max(1),
            sets: Mutex::new(Sets::default()),
        }
    }

    /// Remembers a document and its validity.
    pub fn insert(&self, sha256: [u8; 32], validity: Validity) {
        self.sets
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .touch(sha256, validity, self.half);
    }

    /// Validity of a remembered document; also marks it as recently used.
    pub fn find(&self, sha256: &[u8; 32]) -> Option<Validity> {
        let mut sets = self.sets.lock().unwrap_or_else(PoisonError::into_inner);
        let known = sets.young.get(sha256).or_else(|| sets.old.get(sha256));
        let validity = *known?;
        sets.touch(*sha256, validity, self.half);
        Some(validity)
    }
}

#[derive(Default)]
struct Sets {
    young: HashMap<[u8; 32], Validity>,
    old: HashMap<[u8; 32], Validity>,
}

impl Sets {
    fn touch(&mut self, sha256: [u8; 32], validity: Validity, half: usize) {
        if self.young.contains_key(&sha256) {
            return;
        }
        if self.young.len() >= half {
            self.old = std::mem::take(&mut self.young);
        }
        self.old.remove(&sha256);
        self.young.insert(sha256, validity);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALIDITY: Validity = Validity { from: 1, until: 2 };

    fn hash(number: u32) -> [u8; 32] {
        let mut hash = [0; 32];
        hash[..4].copy_from_slice(&number.to_be_bytes());
        hash
    }

    #[test]
    fn memory_is_bounded_and_the_recent_half_is_kept() {
        let issued = IssuedDocuments::new(100);
        for number in 0..1000 {
            issued.insert(hash(number), VALIDITY);
            let sets = issued.sets.lock().unwrap();
            assert!(sets.young.len() + sets.old.len() <= 100);
        }
        assert!((950..1000).all(|number| issued.find(&hash(number)).is_some()));
        assert!(issued.find(&hash(0)).is_none());
    }

    #[test]
    fn a_document_in_use_survives_newer_ones() {
        let issued = IssuedDocuments::new(10);
        issued.insert(hash(0), VALIDITY);
        for number in 1..1000 {
            issued.insert(hash(number), VALIDITY);
            assert!(issued.find(&hash(0)).is_some(), "{number}");
        }
    }
}
