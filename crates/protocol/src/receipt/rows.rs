//! The rows of a receipt's report: the question, the layer, and the clause.

use attestation::{RowId, RowSpec};

macro_rules! rows {
    ($( $id:literal $check:ident $name:literal $stage:literal, $title:literal, $expected:literal, $clause:literal; )*) => {
        /// One check of a receipt.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        #[non_exhaustive]
        pub enum ReceiptCheck { $( #[doc = $title] $check = $id, )* }

        /// The rows of every receipt report, in the order in which the checks run.
        pub const SPECS: &[RowSpec] = &[$( RowSpec {
            id: $id, name: $name, stage: $stage, title: $title, required: true, expected: $expected, clause: $clause,
        }, )*];
    };
}

impl RowId for ReceiptCheck {
    const SPECS: &'static [RowSpec] = SPECS;

    fn number(self) -> u8 {
        self as u8
    }
}

rows! {
    1 Size "size" "parse", "Is it of bounded size?", "At most 65,536 bytes", "AIR v1";
    2 Envelope "envelope" "parse", "Is it one signed envelope?",
        "A tagged COSE_Sign1 with nothing after it", "RFC 9052 §4.2";
    3 Headers "headers" "parse", "Is the algorithm EdDSA, and are there no other headers?",
        "Protected {alg: EdDSA, content type: 61}, unprotected empty", "AIR v1; RFC 9053 §2.2";
    4 Encoding "claims-encoding" "parse", "Are the claims complete, typed, and there once?",
        "A deterministic map of the profile's claims", "RFC 8949 §4.2.1; RFC 8392 §3";
    5 Profile "profile" "parse", "Does it name the profile that is being judged?",
        "https://spec.cyntrisec.com/air/v1", "RFC 9711 §4.3.2";
    6 Signature "signature" "signature", "Did the receipt key sign exactly these bytes?",
        "A strict Ed25519 signature", "RFC 8032 §5.1.7; RFC 9052 §4.4";
    7 IssuedAt "issued-at" "claims", "Does it say when it was issued?", "A moment that is not 0", "RFC 8392 §3.1.6";
    8 Identifier "identifier" "claims", "Does it carry an identifier?", "16 bytes", "RFC 8392 §3.1.7";
    9 Hashes "hashes" "claims", "Are all hashes complete?", "32 bytes each", "AIR v1";
    10 ModelPresent "model-present" "claims", "Does it name a model?", "A hash that is not all zero", "AIR v1";
    11 Registers "measurements" "claims", "Are the measurements complete registers?",
        "48 bytes each, of a known platform", "AIR v1";
    12 Words "vocabulary" "claims", "Are mode and hash scheme known words, and numbers exact?",
        "\"production\" or \"evaluation\"; a scheme of the profile", "AIR v1; RFC 8259 §6";
    13 NonceLength "nonce-length" "claims", "Has the nonce a possible length?", "8 to 64 bytes, or none", "RFC 9711 §4.1";
    14 Key "key-attested" "policy", "Was the key attested?", "A key out of verified evidence", "docs/PROTOCOL.md §4";
    15 Platform "platform" "policy", "Was it measured on the expected platform?", "nitro-pcr", "AIR v1";
    16 Document "document" "policy", "Does it name this attestation document?",
        "SHA-256 of the document", "docs/PROTOCOL.md §4";
    17 Measured "measured" "policy", "Are its measurements the document's?", "Every register equal", "docs/PROTOCOL.md §4";
    18 Model "model" "policy", "Is it of the expected model?", "Name, version and hash equal", "docs/PROTOCOL.md §4";
    19 Rules "rules" "policy", "Was it issued under the expected policy and mode?",
        "Policy version and security mode equal", "docs/PROTOCOL.md §4";
    20 Request "request" "policy", "Is it of this request?", "The request's commitment", "docs/PROTOCOL.md §4";
    21 Response "response" "policy", "Is it of this response?", "The response's salted commitment", "docs/PROTOCOL.md §4";
    22 Nonce "nonce" "policy", "Does it answer our nonce?", "The nonce that was sent", "RFC 9711 §4.1";
    23 Time "time" "policy", "Was it issued at the expected time?", "Inside the allowed window", "RFC 8392 §3.1.6";
}
