//! The simulated enclave of the aggregation workloads: this program as a child process that receives its data through a pipe.

use std::io::{BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use crate::statistics::milliseconds;
use crate::workload::{Executor, Mode, Native, Round};

/// The hidden flag that turns this program into the worker.
pub const FLAG: &str = "--worker";
/// Longest message: one chunk of values, with some margin.
const MAX_MESSAGE: u64 = 1 << 30;

const SETUP: u8 = 1;
const AES: u8 = 2;
const TERSE: u8 = 3;
const LOOKUP: u8 = 4;
const FAILED: u8 = 0xff;

/// The child process. Dropping it ends it.
pub struct Worker {
    child: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
}

impl Worker {
    /// Starts this program again as a worker.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start() -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg(FLAG)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let to = child.stdin.take();
        let from = BufReader::new(child.stdout.take().context("the worker has no output")?);
        Ok(Self { child, to, from })
    }

    /// Sends a command with its data; returns the numbers of the answer, and the duration of the round trip in milliseconds.
    fn ask(
        &mut self,
        command: u8,
        argument: u64,
        mode: Mode,
        data: &[u8],
    ) -> Result<(Vec<u64>, f64)> {
        let begun = Instant::now();
        let to = self.to.as_mut().context("the worker is gone")?;
        to.write_all(&[command, u8::from(mode == Mode::Sound)])?;
        to.write_all(&argument.to_le_bytes())?;
        to.write_all(&(data.len() as u64).to_le_bytes())?;
        to.write_all(data)?;
        to.flush()?;
        let mut kind = [0];
        self.from
            .read_exact(&mut kind)
            .context("the worker ended")?;
        let count = number(&mut self.from)?;
        ensure!(count <= MAX_MESSAGE / 8, "the worker's answer is too long");
        let answer = (0..count)
            .map(|_| number(&mut self.from))
            .collect::<Result<Vec<u64>>>()?;
        if kind == [FAILED] {
            bail!("the simulated enclave refused its data");
        }
        Ok((answer, milliseconds(begun.elapsed())))
    }
}

impl Executor for Worker {
    fn setup(&mut self, blob: &[u8]) -> Result<f64> {
        let (answer, _) = self.ask(SETUP, 0, Mode::Compatible, blob)?;
        Ok(f64::from_bits(*answer.first().context("an empty answer")?))
    }

    fn aes_round(&mut self, records: &[u8], round: usize, mode: Mode) -> Result<Round> {
        let (answer, whole) = self.ask(AES, round as u64, mode, records)?;
        let [work, sum] = answer[..] else {
            bail!("an answer of another length")
        };
        let work_ms = f64::from_bits(work);
        Ok(Round {
            read_ms: (whole - work_ms).max(0.0),
            work_ms,
            sum,
        })
    }

    fn terse_sums(&mut self, values: &[u64], rounds: usize, mode: Mode) -> Result<Vec<Round>> {
        let bytes: Vec<u8> = values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        let (answer, whole) = self.ask(TERSE, rounds as u64, mode, &bytes)?;
        let (pairs, rest) = answer.as_chunks::<2>();
        ensure!(
            pairs.len() == rounds && rest.is_empty(),
            "an answer of another length"
        );
        let work: f64 = pairs.iter().map(|[work, _]| f64::from_bits(*work)).sum();
        let read_ms = (whole - work).max(0.0) / rounds as f64;
        Ok(pairs
            .iter()
            .map(|[work, sum]| Round {
                read_ms,
                work_ms: f64::from_bits(*work),
                sum: *sum,
            })
            .collect())
    }

    fn lookup(&mut self, sum: u64) -> Result<(f64, u64)> {
        // The whole round trip, because crossing the process boundary is part of a remote look-up's cost.
        let (answer, whole) = self.ask(LOOKUP, sum, Mode::Compatible, &[])?;
        Ok((whole, *answer.first().context("an empty answer")?))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Closing its input ends the worker.
        drop(self.to.take());
        drop(self.child.wait());
    }
}

/// Runs the worker: answers until its input ends.
///
/// # Errors
/// If the pipe breaks, or a message is too long.
pub fn serve(mut from: impl Read, mut to: impl Write) -> Result<()> {
    let mut native = Native::default();
    let mut head = [0; 2];
    while from.read_exact(&mut head).is_ok() {
        let [command, sound] = head;
        let mode = if sound == 0 {
            Mode::Compatible
        } else {
            Mode::Sound
        };
        let argument = number(&mut from)?;
        let length = number(&mut from)?;
        ensure!(
            length <= MAX_MESSAGE,
            "a message of {length} bytes is too long"
        );
        let mut data = vec![0; usize::try_from(length)?];
        from.read_exact(&mut data)?;
        let (kind, answer) = match answer(&mut native, command, argument, mode, &data) {
            Ok(answer) => (command, answer),
            Err(_) => (FAILED, Vec::new()),
        };
        let mut message = vec![kind];
        message.extend_from_slice(&(answer.len() as u64).to_le_bytes());
        answer
            .iter()
            .for_each(|number| message.extend_from_slice(&number.to_le_bytes()));
        to.write_all(&message)?;
        to.flush()?;
    }
    Ok(())
}

fn answer(
    native: &mut Native,
    command: u8,
    argument: u64,
    mode: Mode,
    data: &[u8],
) -> Result<Vec<u64>> {
    let argument = usize::try_from(argument);
    match command {
        SETUP => Ok(vec![native.setup(data)?.to_bits()]),
        AES => {
            let round = native.aes_round(data, argument?, mode)?;
            Ok(vec![round.work_ms.to_bits(), round.sum])
        }
        TERSE => {
            let values: Vec<u64> = data
                .as_chunks::<8>()
                .0
                .iter()
                .map(|bytes| u64::from_le_bytes(*bytes))
                .collect();
            let rounds = native.terse_sums(&values, argument?, mode)?;
            Ok(rounds
                .iter()
                .flat_map(|round| [round.work_ms.to_bits(), round.sum])
                .collect())
        }
        LOOKUP => Ok(vec![native.lookup(argument? as u64)?.1]),
        other => bail!("there is no command {other}"),
    }
}

fn number(from: &mut impl Read) -> Result<u64> {
    let mut bytes = [0; 8];
    from.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(command: u8, argument: u64, data: &[u8]) -> Vec<u8> {
        let mut bytes = vec![command, 0];
        bytes.extend_from_slice(&argument.to_le_bytes());
        bytes.extend_from_slice(&(data.len() as u64).to_le_bytes());
        bytes.extend_from_slice(data);
        bytes
    }

    #[test]
    fn the_worker_answers_and_refuses() {
        let values: Vec<u8> = [1u64, 2, 3, 4]
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        let asked = [
            message(TERSE, 2, &values),
            message(LOOKUP, 5, &[]),
            message(77, 0, &[]),
        ]
        .concat();
        let mut answered = Vec::new();
        serve(asked.as_slice(), &mut answered).unwrap();
        let mut read = answered.as_slice();
        let mut next = || {
            let mut kind = [0];
            read.read_exact(&mut kind).unwrap();
            let count = number(&mut read).unwrap();
            (
                kind[0],
                (0..count)
                    .map(|_| number(&mut read).unwrap())
                    .collect::<Vec<_>>(),
            )
        };
        let (kind, sums) = next();
        assert_eq!((kind, sums[1], sums[3]), (TERSE, 4, 6));
        assert_eq!(next().1, [5 + crate::workload::table()[5]]);
        assert_eq!(next().0, FAILED);
    }

    #[test]
    fn a_message_that_is_too_long_is_not_allocated() {
        let mut asked = vec![TERSE, 0];
        asked.extend_from_slice(&1u64.to_le_bytes());
        asked.extend_from_slice(&u64::MAX.to_le_bytes());
        assert!(serve(asked.as_slice(), Vec::new()).is_err());
    }
}
