//! Time from a sealed container at the parent to a ready engine, in turns: streamed as in the enclave, and fetched whole,
//! decrypted whole, then parsed. For several speeds of the transport.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
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
use crate::statistics::milliseconds;

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
    for speed in SPEEDS {
        host.speed
            .store(speed.unwrap_or(0).into(), Ordering::Relaxed);
        let [mut streamed, mut whole, mut bound] = [const { Vec::new() }; 3];
        for _ in 0..rounds {
            let (fetch, decrypt, all) = fetched_whole(&host, &pins)?;
            whole.push(milliseconds(all));
            // The slower of fetching and decrypting, each measured alone; a transport with a set speed needs no measurement.
            let fetch = speed.map_or(fetch, |speed| transfer_time(&container, speed));
            let slower = milliseconds(fetch.max(decrypt));
            let own = milliseconds(self::streamed(&host, &pins)?);
            streamed.push(own);
            bound.push(own / slower);
        }
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

fn streamed(host: &Host, pins: &Manifest) -> Result<Duration> {
    let begun = Instant::now();
    let parent = Parent::new(ParentAddress::Tcp(host.address), PATIENCE);
    let until = begun + Duration::from_secs(60);
    let source = Sealed::open(&parent, "model", &DataKey::new(&KEY), pins, until)?;
    let loaded = Model::load_from(source, pins, Recipe::tokenizer)?;
    build_engine(loaded.model, &loaded.side_result?)?;
    Ok(begun.elapsed())
}

const PATIENCE: Timeouts = Timeouts {
    stall: Duration::from_secs(10),
    least_rate: 1,
};

/// Durations of the fetch, of the decryption, and of everything.
fn fetched_whole(host: &Host, pins: &Manifest) -> Result<(Duration, Duration, Duration)> {
    let begun = Instant::now();
    let mut stream = TcpStream::connect(host.address)?;
    stream.write_all(b"GET / HTTP/1.1\r\nrange: bytes=0-\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let head = answer.windows(4).position(|four| four == b"\r\n\r\n");
    let mut container = answer.split_off(head.context("no answer")? + 4);
    let fetched = begun.elapsed();
    let (header, length) = Header::read(&container)?;
    let opener = Opener::new(header, &DataKey::new(&KEY))?;
    let mut chunks = container.split_off(length);
    let mut pieces = Vec::new();
    for index in 0..opener.header().chunks() {
        let length = opener.header().chunk_length(index).context("no chunk")?;
        let rest = chunks.split_off(length);
        let length = opener.open(index, &mut chunks)?.len();
        pieces.push(Piece {
            memory: std::mem::replace(&mut chunks, rest),
            length,
        });
    }
    let decrypted = begun.elapsed();
    pieces.reverse();
    let model = Model::load_from(DecryptedPieces(pieces), pins, |_, _| ())?.model;
    let tokenizer = model.build_tokenizer()?;
    build_engine(model, &tokenizer)?;
    Ok((fetched, decrypted - fetched, begun.elapsed()))
}

fn build_engine(model: Model, tokenizer: &Tokenizer) -> Result<()> {
    let encoder = model.build_encoder(EngineChoice::Auto, Precision::F32, threads()?)?;
    std::hint::black_box((encoder.name(), tokenizer));
    Ok(())
}

/// Pieces that were decrypted before, the last one first.
struct DecryptedPieces(Vec<Piece>);

impl Source for DecryptedPieces {
    fn next(&mut self, _: Vec<u8>) -> Result<Option<Piece>, ModelError> {
        Ok(self.0.pop())
    }

    fn times(&self) -> SourceTimes {
        SourceTimes::default()
    }
}

/// Serves one container at a set speed.
struct Host {
    address: SocketAddr,
    speed: Arc<AtomicU64>,
}

impl Host {
    fn start(container: Arc<Vec<u8>>) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let speed = Arc::new(AtomicU64::new(0));
        let current = Arc::clone(&speed);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // A client disconnects once it has all bytes.
                let _ = serve(stream, &container, current.load(Ordering::Relaxed));
            }
        });
        Ok(Self { address, speed })
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
