//! The CBOR reader with its three rules.

use attestation::cbor::{CborError, Kind, MAX_DEPTH, Reader, Rules, Writer};

use super::{document, receipt};

/// A stricter rule accepts less; input accepted by the strictest is encoded identically again.
pub(super) fn run(data: &[u8]) {
    let read = |rules| {
        let mut reader = Reader::new(data, rules);
        reader.raw().map(<[u8]>::len)
    };
    let lengths = [Rules::WellFormed, Rules::Shortest, Rules::Deterministic].map(read);
    for pair in lengths.windows(2) {
        if let Ok(strict) = &pair[1] {
            assert_eq!(pair[0].as_ref(), Ok(strict));
        }
    }
    if let Ok(length) = lengths[2] {
        let mut writer = Writer::new();
        let mut reader = Reader::new(data, Rules::Deterministic);
        // Simple values are skipped and cannot be read, so they cannot be copied.
        if copy(&mut reader, &mut writer, 0).is_ok() {
            assert_eq!(reader.position(), length);
            assert_eq!(writer.finish(), &data[..length]);
        }
    }
}

fn copy(reader: &mut Reader<'_>, writer: &mut Writer, depth: u8) -> Result<(), CborError> {
    assert!(depth <= MAX_DEPTH, "deeper than `raw` follows");
    match reader.peek()? {
        Kind::Unsigned => drop(writer.uint(reader.uint()?)),
        Kind::Negative => drop(writer.int(reader.int()?)),
        Kind::Bytes => drop(writer.bytes(reader.bytes()?)),
        Kind::Text => drop(writer.text(reader.text()?)),
        Kind::Bool => drop(writer.bool(reader.bool()?)),
        Kind::Tag => {
            writer.tag(reader.tag()?);
            copy(reader, writer, depth + 1)?;
        }
        Kind::Array => {
            let mut array = reader.array()?;
            writer.array(array.left().expect("definite"));
            while reader.more(&mut array)? {
                copy(reader, writer, depth + 1)?;
            }
        }
        Kind::Map => {
            let mut map = reader.map()?;
            writer.map(map.left().expect("definite"));
            while reader.more(&mut map)? {
                copy(reader, writer, depth + 1)?;
                copy(reader, writer, depth + 1)?;
            }
        }
        Kind::Null => {
            reader.null()?;
            writer.null();
        }
        Kind::Simple | Kind::Break => {
            let at = reader.position();
            return Err(CborError::Reserved { at });
        }
    }
    Ok(())
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = vec![
        vec![0x9f, 0xff],
        vec![0xbf, 0x01, 0x02, 0xff],
        vec![0xa2, 0x01, 0x00, 0x20, 0x00],
        vec![0xd2, 0x84, 0x40, 0xa0, 0xf6, 0x40],
        vec![0x81; usize::from(MAX_DEPTH) + 2],
        vec![0xfb, 0x3f, 0xf0, 0, 0, 0, 0, 0, 0],
        vec![0x5b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
        vec![0x3b, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
    ];
    seeds.extend(document::payload_seeds().into_iter().take(8));
    seeds.extend(receipt::claims_seeds());
    seeds.retain(|seed| seed.len() <= 4_096);
    seeds
}
