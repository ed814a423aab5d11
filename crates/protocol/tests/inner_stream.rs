//! Binary HTTP of indeterminate length, against the crate `bhttp`, by an author of RFC 9292.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::needless_pass_by_value
)]

use std::io::Cursor;

use bhttp::{Message, Mode, StatusCode};
use proptest::prelude::*;
use protocol::inner::stream::{ReadResponse, ResponseReader, ResponseWriter};
use protocol::inner::{InnerError, InnerRequest, InnerResponse};
use protocol::padme::padded_len;

fn field(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

fn write(parts: &[&[u8]], trailers: &[(String, String)]) -> Vec<u8> {
    let headers = [field("content-type", "application/x-ndjson")];
    let (mut writer, mut bytes) = ResponseWriter::begin(200, &headers).unwrap();
    for part in parts {
        writer.content(part, &mut bytes);
    }
    bytes.extend(writer.finish(trailers).unwrap());
    bytes
}

fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Result<ReadResponse, InnerError> {
    let mut reader = ResponseReader::default();
    for piece in pieces {
        reader.push(piece)?;
    }
    reader.finish()
}

fn refusal<T>(result: Result<T, InnerError>) -> InnerError {
    match result {
        Ok(_) => panic!("accepted"),
        Err(error) => error,
    }
}

fn their_request(mode: Mode) -> Vec<u8> {
    let mut message = Message::request(
        "POST".into(),
        "https".into(),
        "embed.example".into(),
        "/v1/embeddings".into(),
    );
    message.put_header("host", "embed.example");
    message.put_header("accept", "a");
    message.put_header("accept", "b");
    message.write_content(b"first ");
    message.write_content(b"second");
    message.put_trailer("x-checksum", "7");
    let mut bytes = Vec::new();
    message.write_bhttp(mode, &mut bytes).unwrap();
    bytes
}

#[test]
fn their_requests_of_both_forms_are_read_alike() {
    for mode in [Mode::KnownLength, Mode::IndeterminateLength] {
        let bytes = their_request(mode);
        let padded = [&bytes[..], &[0; 9]].concat();
        let (request, length) = InnerRequest::decode_any(&padded).unwrap();
        assert_eq!(length, bytes.len());
        assert_eq!(
            (request.method.as_str(), request.path.as_str()),
            ("POST", "/v1/embeddings")
        );
        assert_eq!(request.headers, [field("accept", "a, b")]);
        assert_eq!(request.content, b"first second");
        let changed = [&padded[..], &[1]].concat();
        assert_eq!(
            refusal(InnerRequest::decode_any(&changed)),
            InnerError::Padding
        );
    }
    // The other form stays refused where only one is expected.
    assert!(InnerRequest::decode(&their_request(Mode::IndeterminateLength)).is_err());
}

#[test]
fn a_request_ends_only_between_its_sections() {
    let bytes = their_request(Mode::IndeterminateLength);
    let complete: Vec<_> = (0..bytes.len())
        .filter(|length| InnerRequest::decode_any(&bytes[..*length]).is_ok())
        .collect();
    let trailers = "x-checksum7".len() + 3;
    let content = "first second".len() + 2;
    let header = "hostembed.exampleacceptaacceptb".len() + 7;
    // Before the header, the content and the trailers.
    let ends = [trailers + content + header, trailers + content, trailers];
    assert_eq!(complete, ends.map(|left| bytes.len() - left));
}

#[test]
fn their_reader_reads_our_stream() {
    let trailers = [field("clearseal-receipt", "x")];
    let bytes = write(&[b"one", b"", b"two"], &trailers);
    assert_eq!(bytes.len(), padded_len(bytes.len()));
    let message = Message::read_bhttp(&mut Cursor::new(&bytes)).unwrap();
    assert_eq!(message.control().status().unwrap().code(), 200);
    assert_eq!(message.content(), b"onetwo");
    assert_eq!(message.trailer().get(b"clearseal-receipt"), Some(&b"x"[..]));
}

#[test]
fn head_and_content_are_known_before_the_end() {
    let bytes = write(&[b"one", b"two"], &[]);
    let mut reader = ResponseReader::default();
    let mut seen = Vec::new();
    for byte in &bytes {
        reader.push(&[*byte]).unwrap();
        let head = reader.head().map(|(status, fields)| (status, fields.len()));
        seen.push((head, reader.content().to_vec()));
    }
    assert!(seen.contains(&(None, vec![])));
    assert!(seen.contains(&(Some((200, 1)), b"on".to_vec())));
    assert_eq!(seen.last(), Some(&(Some((200, 1)), b"onetwo".to_vec())));
}

#[test]
fn a_response_of_known_length_is_read_at_its_end() {
    let response = InnerResponse {
        status: 404,
        headers: vec![field("content-type", "application/json")],
        content: b"{}".to_vec(),
    };
    let bytes = response.encode_padded().unwrap();
    let mut reader = ResponseReader::default();
    reader.push(&bytes).unwrap();
    assert!(reader.head().is_none());
    let read = reader.finish().unwrap();
    assert!(read.response == response && read.trailers.is_empty());
    assert!(matches!(
        refusal(read_all(&bytes[..9])),
        InnerError::Malformed(_)
    ));
}

fn read_all(bytes: &[u8]) -> Result<ReadResponse, InnerError> {
    read([bytes])
}

#[test]
fn a_stream_that_ends_within_a_part_is_refused() {
    let bytes = write(&[b"one", b"two"], &[field("clearseal-receipt", "x")]);
    let end = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 2;
    let complete: Vec<_> = (0..end)
        .filter(|length| read_all(&bytes[..*length]).is_ok())
        .collect();
    let trailers = "clearseal-receiptx".len() + 3;
    let content = "onetwo".len() + 3;
    assert_eq!(complete, [end - trailers - content, end - trailers]);
}

#[test]
fn rules_of_the_other_form_hold() {
    let refused =
        |name: &str, value: &str| ResponseWriter::begin(200, &[field(name, value)]).is_err();
    assert!(refused("Upper", "x") && refused("connection", "close") && refused("x", "a\nb"));
    assert!(ResponseWriter::begin(100, &[]).is_err());
    let of_headers = |headers: &[(&str, &str)]| {
        let mut message = Message::response(StatusCode::try_from(200u64).unwrap());
        for (name, value) in headers {
            message.put_header(*name, *value);
        }
        message.write_content(b"text");
        let mut bytes = Vec::new();
        message
            .write_bhttp(Mode::IndeterminateLength, &mut bytes)
            .unwrap();
        read_all(&bytes).map(|read| read.response.content)
    };
    assert_eq!(of_headers(&[("content-length", "4")]), Ok(b"text".to_vec()));
    assert!(of_headers(&[("content-length", "5")]).is_err());
    assert!(of_headers(&[("set-cookie", "a=b")]).is_err());
    assert!(of_headers(&[("x", &"y".repeat(9000))]).is_err());
    let many: Vec<_> = (0..65).map(|n| format!("x{n}")).collect();
    let many: Vec<_> = many.iter().map(|name| (name.as_str(), "1")).collect();
    assert!(of_headers(&many).is_err());
    assert!(matches!(refusal(read_all(&[2])), InnerError::Malformed(_)));
    assert!(matches!(refusal(read_all(&[4])), InnerError::Malformed(_)));
}

proptest! {
    #[test]
    fn any_stream_in_any_pieces_is_read_by_both(
        parts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..20_000), 0..5),
        piece in 1usize..30_000,
    ) {
        let borrowed: Vec<_> = parts.iter().map(Vec::as_slice).collect();
        let bytes = write(&borrowed, &[field("x", "y")]);
        let ours = read(bytes.chunks(piece)).unwrap();
        prop_assert_eq!(&ours.response.content, &parts.concat());
        prop_assert_eq!(ours.trailers, [field("x", "y")]);
        let theirs = Message::read_bhttp(&mut Cursor::new(&bytes)).unwrap();
        prop_assert_eq!(theirs.content(), parts.concat());
    }

    #[test]
    fn no_bytes_make_a_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300), first in 0u8..5) {
        let bytes = [&[first][..], &bytes].concat();
        let ours = read(bytes.chunks(7)).map(|read| read.response.content);
        // In other pieces nothing changes.
        prop_assert_eq!(&ours, &read_all(&bytes).map(|read| read.response.content));
        let _ = InnerRequest::decode_any(&bytes);
    }
}
