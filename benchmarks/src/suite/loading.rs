//! Time from a sealed container at the parent to a ready engine, in turns: streamed as in the enclave, and fetched whole,
//! decrypted whole, then parsed. For several speeds of the transport.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use enclave_server::model::{Model, ModelError, Piece, Sealed, Source, SourceTimes, pinned};
use enclave_server::parent::{Parent, ParentAddress, Timeouts};
use engine::{EngineChoice, Precision, Recipe, Tokenizer};
use sealed_model::{DataKey, Header, Manifest, ModelFolder, Opener};

use super::engine::threads;
use super::system::scratch;
use super::{Run, number, text};
use crate::record::Unit;
use crate::statistics::{self, milliseconds};

/// Megabytes per second; `None` is the unlimited speed of a socket.
const SPEEDS: [Option<u32>; 4] = [None, Some(1_000), Some(300), Some(100)];
const KEY: [u8; 32] = [7; 32];
const STREAMED: &str = "streamed: fetched, opened, hashed and laid out at once";
const WHOLE: &str = "fetched whole, decrypted whole, then parsed";

pub(super) fn measure(run: &mut Run) -> Result<()> {
    let pins = pinned::all_minilm_l6_v2()?.files;
    let container = Arc::new(seal(run, &pins)?);
    let rounds = if run.options.quick { 2 } else { 10 };
    let host = Host::start(Arc::clone(&container))?;
    let threads = threads(run)?;
    for speed in SPEEDS {
        host.speed
            .store(speed.unwrap_or(0).into(), Ordering::Relaxed);
        let [mut streamed, mut whole, mut bound] = [const { Vec::new() }; 3];
        for _ in 0..rounds {
            let (fetch, decrypt, all) = fetched_whole(&host, &pins, threads)?;
            whole.push(milliseconds(all));
            // The slower of fetching and decrypting, each measured alone; a transport with a set speed needs no measurement.
            let fetch = speed.map_or(fetch, |speed| transfer_time(&container, speed));
            let slower = milliseconds(fetch.max(decrypt));
            let own = milliseconds(self::streamed(&host, &pins, threads)?);
            streamed.push(own);
            bound.push(own / slower);
        }
        check_bound(&bound)?;
        let transport = match speed {
            Some(speed) => ("transport_mb_s", number(speed as usize)),
            None => ("transport", text("a socket, not slowed down")),
        };
        for (loader, sample) in [(STREAMED, &streamed), (WHOLE, &whole)] {
            let conditions = [transport.clone(), ("loader", text(loader))];
            run.times("load.ready", &conditions, sample);
        }
        run.sample("load.over_bound", &[transport], Unit::Ratio, &bound);
    }
    Ok(())
}

/// Least median time of a streamed load, of the slower of its parts. Below it, the part was measured with other work in it.
const PLAUSIBLE: f64 = 0.95;

/// Fails if loads took less time than the slower of their parts.
fn check_bound(bound: &[f64]) -> Result<()> {
    let median = statistics::of(bound).p50.context("no load was measured")?;
    ensure!(
        median >= PLAUSIBLE,
        "a load took {median:.2} of the time of the slower of its parts, which is implausible"
    );
    Ok(())
}

/// Duration of a transfer at `megabytes` per second.
fn transfer_time(container: &[u8], megabytes: u32) -> Duration {
    // Megabytes per second are bytes per microsecond.
    Duration::from_micros(container.len() as u64 / u64::from(megabytes.max(1)))
}

fn seal(run: &Run, pins: &Manifest) -> Result<Vec<u8>> {
    let folder = ModelFolder::open(&run.options.model)?;
    let out = scratch()?;
    let file = out.path().join("model.sealed");
    folder.seal(pins, &DataKey::new(&KEY), &[1; 32], &file, &mut |_| {})?;
    Ok(std::fs::read(file)?)
}

fn streamed(host: &Host, pins: &Manifest, threads: NonZeroUsize) -> Result<Duration> {
    let begun = Instant::now();
    let parent = Parent::new(ParentAddress::Tcp(host.address), PATIENCE);
    let until = begun + Duration::from_secs(60);
    let source = Sealed::open(&parent, "model", &DataKey::new(&KEY), pins, until)?;
    let loaded = Model::load_from(source, pins, Recipe::tokenizer)?;
    build_engine(loaded.model, &loaded.side_result?, threads)?;
    Ok(begun.elapsed())
}

const PATIENCE: Timeouts = Timeouts {
    stall: Duration::from_secs(10),
    least_rate: 1,
};

/// Durations of the fetch, of the decryption, and of everything.
fn fetched_whole(
    host: &Host,
    pins: &Manifest,
    threads: NonZeroUsize,
) -> Result<(Duration, Duration, Duration)> {
    let begun = Instant::now();
    let mut stream = TcpStream::connect(host.address)?;
    stream.write_all(b"GET / HTTP/1.1\r\nrange: bytes=0-\r\n\r\n")?;
    // Reserved, so that the fetch includes no copies of a buffer that grows.
    let mut answer = Vec::with_capacity(host.length + HEAD);
    stream.read_to_end(&mut answer)?;
    let head = answer.windows(4).position(|four| four == b"\r\n\r\n");
    let container = answer
        .get_mut(head.context("no answer")? + 4..)
        .context("no container")?;
    let fetched = begun.elapsed();
    let (header, length) = Header::read(container)?;
    let opener = Opener::new(header, &DataKey::new(&KEY))?;
    let chunks = container.get_mut(length..).context("no chunks")?;
    let pieces = DecryptedPieces(open_in_place(&opener, chunks)?.into_iter());
    let decrypted = begun.elapsed();
    let model = Model::load_from(pieces, pins, |_, _| ())?.model;
    let tokenizer = model.build_tokenizer()?;
    build_engine(model, &tokenizer, threads)?;
    Ok((fetched, decrypted - fetched, begun.elapsed()))
}

/// Room for the head of an answer.
const HEAD: usize = 4 << 10;

/// Opens every chunk where it is; returns their plain bytes in order.
fn open_in_place<'a>(opener: &Opener, mut chunks: &'a mut [u8]) -> Result<Vec<&'a [u8]>> {
    let mut plain = Vec::new();
    for index in 0..opener.header().chunks() {
        let length = opener.header().chunk_length(index).context("no chunk")?;
        let (chunk, rest) = std::mem::take(&mut chunks)
            .split_at_mut_checked(length)
            .context("the container is cut off")?;
        plain.push(&*opener.open(index, chunk)?);
        chunks = rest;
    }
    ensure!(chunks.is_empty(), "bytes follow the last chunk");
    Ok(plain)
}

fn build_engine(model: Model, tokenizer: &Tokenizer, threads: NonZeroUsize) -> Result<()> {
    let encoder = model.build_encoder(EngineChoice::Auto, Precision::F32, threads)?;
    std::hint::black_box((encoder.name(), tokenizer));
    Ok(())
}

/// Chunks that were decrypted before.
struct DecryptedPieces<'a>(std::vec::IntoIter<&'a [u8]>);

impl Source for DecryptedPieces<'_> {
    fn next(&mut self, mut memory: Vec<u8>) -> Result<Option<Piece>, ModelError> {
        Ok(self.0.next().map(|chunk| {
            memory.clear();
            memory.extend_from_slice(chunk);
            let length = chunk.len();
            Piece { memory, length }
        }))
    }

    fn times(&self) -> SourceTimes {
        SourceTimes::default()
    }
}

/// Serves one container at a set speed.
struct Host {
    address: SocketAddr,
    /// Bytes of the container.
    length: usize,
    speed: Arc<AtomicU64>,
}

impl Host {
    fn start(container: Arc<Vec<u8>>) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let speed = Arc::new(AtomicU64::new(0));
        let length = container.len();
        let current = Arc::clone(&speed);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // A client disconnects once it has all bytes.
                let _ = serve(stream, &container, current.load(Ordering::Relaxed));
            }
        });
        Ok(Self {
            address,
            length,
            speed,
        })
    }
}

fn serve(mut stream: TcpStream, container: &[u8], megabytes: u64) -> Result<()> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        ensure!(stream.read(&mut byte)? == 1, "no request");
        head.push(byte[0]);
    }
    let length = container.len();
    let head = format!(
        "HTTP/1.1 206 Partial Content\r\ncontent-length: {length}\r\ncontent-range: bytes 0-{}/{length}\r\netag: \"v\"\r\n\r\n",
        length - 1
    );
    stream.write_all(head.as_bytes())?;
    let begun = Instant::now();
    let mut sent = 0;
    for part in container.chunks(256 << 10) {
        stream.write_all(part)?;
        sent += part.len() as u64;
        // Megabytes per second are bytes per microsecond.
        if let Some(due) = sent.checked_div(megabytes) {
            std::thread::sleep(Duration::from_micros(due).saturating_sub(begun.elapsed()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use sealed_model::{FileEntry, Sealer};

    use super::*;

    #[test]
    fn a_load_faster_than_its_slower_part_is_refused() {
        assert!(check_bound(&[1.0, 1.2, 0.95]).is_ok());
        // One disturbed round does not decide.
        assert!(check_bound(&[1.0, 1.1, 0.4]).is_ok());
        let refused = check_bound(&[0.42, 0.45, 1.0]).unwrap_err().to_string();
        assert!(refused.contains("implausible"), "{refused}");
        assert!(check_bound(&[]).is_err());
    }

    #[test]
    fn chunks_are_opened_where_they_are() {
        let contents: Vec<u8> = (0..(2 << 20) + 7).map(|at: u32| at as u8).collect();
        let manifest = Manifest::new(vec![FileEntry::of("a", &contents)]).unwrap();
        let key = DataKey::new(&KEY);
        let mut sealer = Sealer::new(manifest, &[1; 32], &key).unwrap();
        let (header, _) = Header::read(sealer.header()).unwrap();
        let opener = Opener::new(header, &key).unwrap();
        let (mut sealed, mut rest) = (Vec::new(), contents.as_slice());
        while let Some(wanted) = sealer.wants() {
            let (chunk, left) = rest.split_at(wanted);
            let mut chunk = chunk.to_vec();
            sealer.seal(&mut chunk).unwrap();
            sealed.extend(chunk);
            rest = left;
        }
        let (mut cut, mut longer) = (sealed.clone(), [sealed.clone(), vec![0]].concat());
        cut.pop();
        assert_eq!(
            open_in_place(&opener, &mut sealed).unwrap().concat(),
            contents
        );
        assert!(open_in_place(&opener, &mut cut).is_err());
        assert!(open_in_place(&opener, &mut longer).is_err());
    }
}
