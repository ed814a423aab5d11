//! The cost of a frame without a stream: encoding alone, with its cipher, and decoding a tensor without a copy.

use std::hint::black_box;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use protocol::channel::frame::{HEADER, Kind, Step};
use protocol::channel::tensor::{Dtype, Tensor, append_header};
use protocol::channel::{MonotonicMillis, Session};

use crate::comparison::Repetitions;
use crate::contender::milliseconds;
use crate::{Series, Value, attested_channel};

/// Size in the published reports, bytes.
const FRAME: usize = 4_096;
const ROWS: u64 = 128;
const COLUMNS: u64 = 768;

/// An operation too short to be timed by itself.
pub struct Operation {
    /// Subject, by its name in records.
    pub subject: &'static str,
    /// Conditions of the figure.
    pub parameters: Vec<(&'static str, Value)>,
    /// Iterations per repetition.
    pub iterations: u32,
    /// Runs the operation once.
    pub run: Box<dyn FnMut() -> Result<()>>,
}

/// A codec's operation on a frame.
pub fn repeat(
    operation: &'static str,
    codec: &'static str,
    bytes: usize,
    run: impl FnMut() -> Result<()> + 'static,
) -> Operation {
    Operation {
        subject: "frame.latency",
        parameters: vec![
            ("operation", operation.into()),
            ("codec", codec.into()),
            ("payload_bytes", bytes.into()),
        ],
        iterations: 200,
        run: Box::new(run),
    }
}

/// Measures the operations in turns; milliseconds of one iteration.
pub(crate) fn measure(
    repetitions: Repetitions,
    mut operations: Vec<Operation>,
) -> Result<Vec<Series>> {
    let mut samples = vec![Vec::new(); operations.len()];
    for round in 0..repetitions.warmups + repetitions.counted {
        for (operation, sample) in operations.iter_mut().zip(&mut samples) {
            let begun = Instant::now();
            for _ in 0..operation.iterations {
                (operation.run)()?;
            }
            if round >= repetitions.warmups {
                sample.push(milliseconds(begun) / f64::from(operation.iterations));
            }
        }
    }
    let series = operations
        .into_iter()
        .zip(samples)
        .map(|(operation, sample)| {
            let parameters = operation.parameters.into_iter();
            Series {
                subject: operation.subject.to_owned(),
                parameters: parameters
                    .map(|(name, value)| (name.to_owned(), value))
                    .collect(),
                sample,
                rate: false,
                turns: "codecs".to_owned(),
            }
        });
    Ok(series.collect())
}

/// The channel's operations on frames.
pub(crate) fn channel_operations() -> Result<Vec<Operation>> {
    /// Handshake messages are framed like those of a session, but not encrypted.
    const CLEAR: &str = "channel frame, no cipher";
    const SEALED: &str = "channel frame, sealed in place";
    let payload = vec![0xab; FRAME];
    let encoded = Step::ServerHello.frame(&payload);
    let bytes = encoded.clone();
    let decode = move |bytes: &[u8]| {
        let (header, body) = bytes.split_first_chunk::<HEADER>().context("no header")?;
        let length = Step::ServerHello.length(header)?;
        ensure!(body.len() == length, "another length");
        black_box(body);
        Ok(())
    };
    let copied = payload.clone();
    let mut operations = vec![
        repeat("encode", CLEAR, FRAME, move || {
            black_box(Step::ServerHello.frame(black_box(&payload)));
            Ok(())
        }),
        // The published codec is given a copy, so this one is too.
        repeat("decode", CLEAR, FRAME, move || decode(&bytes.clone())),
        repeat("roundtrip", CLEAR, FRAME, move || {
            decode(&Step::ServerHello.frame(black_box(&copied)))
        }),
    ];
    let (mut near, _) = attested_channel::sessions()?;
    let mut message = vec![0xab; FRAME];
    operations.push(repeat("seal", SEALED, FRAME, move || {
        let sealed = near
            .sender
            .seal(Kind::Data, false, &mut message, MonotonicMillis(0));
        black_box(sealed?);
        Ok(())
    }));
    let (mut near, mut far) = attested_channel::sessions()?;
    let (mut out, message) = (Vec::new(), vec![0xab; FRAME]);
    operations.push(repeat("seal and open", SEALED, FRAME, move || {
        out.clear();
        near.sender
            .append(Kind::Data, &message, MonotonicMillis(0), &mut out)?;
        open(&mut far, &mut out)
    }));
    operations.push(tensor()?);
    Ok(operations)
}

fn open(session: &mut Session, frame: &mut [u8]) -> Result<()> {
    let (header, body) = frame
        .split_first_chunk_mut::<HEADER>()
        .context("no header")?;
    let header = session.receiver.header(header)?;
    black_box(session.receiver.open(&header, body)?);
    Ok(())
}

/// A hidden state: parses its header and borrows its numbers without copying.
fn tensor() -> Result<Operation> {
    let bytes = usize::try_from(ROWS * COLUMNS * 4)?;
    let mut payload = Vec::new();
    append_header(Dtype::F32, &[ROWS, COLUMNS], "hidden", &mut payload)?;
    payload.resize(payload.len() + bytes, 0);
    // As u64, so that the bytes are aligned like those of a received frame.
    let mut words = vec![0_u64; payload.len().div_ceil(8)];
    let (into, _) = bytemuck::cast_slice_mut(&mut words).split_at_mut(payload.len());
    into.copy_from_slice(&payload);
    let length = payload.len();
    let decode = move || {
        let (payload, _) = bytemuck::cast_slice(&words).split_at(length);
        let tensor = Tensor::parse(black_box(payload))?;
        let floats = tensor.floats()?;
        ensure!(floats.len() * 4 == bytes, "another tensor");
        black_box(floats);
        Ok(())
    };
    let codec = "channel tensor, no copy";
    Ok(repeat("tensor_decode", codec, bytes, decode))
}
