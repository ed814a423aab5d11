//! Round trips over the sockets that replace vsock, and over the vsock of an emulated enclave if one is configured.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;

use anyhow::{Context, Result, bail, ensure};

use super::{Run, number, text};

/// Environment variable with the echo service of a booted `enclave-probe`: the emulator's socket, a colon, and the port, 5006.
const ECHO: &str = "CLEARSEAL_ENCLAVE_ECHO";

/// Payload sizes of the reports.
const SIZES: [usize; 4] = [64, 1 << 10, 1 << 16, 1 << 20];

pub(super) fn round_trips(run: &mut Run) -> Result<()> {
    let (near, far) = UnixStream::pair()?;
    through(run, "unix", near, echo(far))?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let near = TcpStream::connect(listener.local_addr()?)?;
    let (far, _) = listener.accept()?;
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    through(run, "tcp", near, echo(far))?;
    match std::env::var(ECHO) {
        // Host and guest share the processors, and the guest's instructions are interpreted; the name keeps these figures apart
        // from the reports' vsock.
        Ok(at) => through(run, "vsock, emulated", enclave(&at)?, None),
        Err(_) => {
            run.absent(
                "transport.rtt",
                "vsock is not measured: there is none outside of a Nitro instance, and no emulated enclave is named",
            );
            Ok(())
        }
    }
}

/// Connects through the emulator's socket, as a parent instance would.
fn enclave(at: &str) -> Result<UnixStream> {
    let (socket, port) = at
        .rsplit_once(':')
        .with_context(|| format!("{ECHO} is not SOCKET:PORT"))?;
    let mut stream =
        UnixStream::connect(socket).with_context(|| format!("nothing answers at {socket}"))?;
    stream.write_all(format!("CONNECT {port}\n").as_bytes())?;
    let mut answer = String::new();
    // The enclave sends nothing after its line, so no byte of a payload is lost in the buffer.
    BufReader::new(&stream).read_line(&mut answer)?;
    ensure!(answer.starts_with("OK "), "the enclave has no echo there");
    Ok(stream)
}

type Echo = JoinHandle<std::io::Result<()>>;

/// The peer: echoes what it receives, until the near side is dropped.
fn echo<S: Read + Write + Send + 'static>(mut far: S) -> Option<Echo> {
    let echo = std::thread::spawn(move || -> std::io::Result<()> {
        let mut header = [0; 8];
        let mut payload = Vec::new();
        while far.read_exact(&mut header).is_ok() {
            let length = u64::from_le_bytes(header);
            payload.resize(usize::try_from(length).unwrap_or(0), 0);
            far.read_exact(&mut payload)?;
            far.write_all(&payload)?;
        }
        Ok(())
    });
    Some(echo)
}

fn through<S: Read + Write>(
    run: &mut Run,
    name: &str,
    mut near: S,
    echo: Option<Echo>,
) -> Result<()> {
    for size in SIZES {
        let parameters = [("payload_bytes", number(size)), ("transport", text(name))];
        let payload = vec![7u8; size];
        let mut back = vec![0u8; size];
        let sample = run.time("transport.rtt", &parameters, || {
            near.write_all(&(size as u64).to_le_bytes())?;
            near.write_all(&payload)?;
            near.read_exact(&mut back).context("the echo ended")
        })?;
        if size == 1 << 20 {
            // Counted like uploads in the reports: the bytes sent over the whole round trip.
            let upload = ("direction", text("upload"));
            let both = ("pattern", text("round trip, both ways"));
            for (parameter, bytes) in [(upload, size), (both, 2 * size)] {
                let parameters = [("transport", text(name)), parameter];
                run.throughput("transport.throughput", &parameters, bytes, &sample);
            }
        }
    }
    drop(near);
    match echo.map(JoinHandle::join) {
        None => Ok(()),
        Some(Ok(ended)) => Ok(ended?),
        Some(Err(_)) => bail!("the echo panicked"),
    }
}
