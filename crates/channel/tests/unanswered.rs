//! A bulk run keeps every answer that arrived and every item without one, whichever direction fails first.
#![allow(missing_docs)]
#![allow(clippy::unwrap_used)]

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use channel::bulk::{self, Backoff, Work};
use channel::{Channel, Error, Message, Verifier, connect};
use protocol::channel::frame::Kind;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf, duplex};
use tokio::sync::mpsc;

use crate::common::{DEADLINE, Enclave, NOW, rng};

/// A pipe that accepts `frames_left` more frames with an item, and then fails to write. Reading continues.
struct Breaking {
    pipe: DuplexStream,
    frames_left: usize,
}

/// Longer than every frame of a handshake's client and shorter than an item's.
const ITEM: usize = 5_000;

impl AsyncRead for Breaking {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.pipe).poll_read(context, buffer)
    }
}

impl AsyncWrite for Breaking {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if bytes.len() >= ITEM {
            match self.frames_left.checked_sub(1) {
                Some(left) => self.frames_left = left,
                None => return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
            }
        }
        Pin::new(&mut self.pipe).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.pipe).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.pipe).poll_shutdown(context)
    }
}

/// Sends items to an enclave that takes a second for each.
struct Run {
    enclave: Arc<Enclave>,
    verifier: Verifier,
    connections: u64,
    /// Items that the first connection accepts; later ones accept all.
    first_carries: usize,
    /// The call of `encode` that fails once.
    fails_at: Option<usize>,
    /// The item that `encode` never takes.
    refuses: Option<u8>,
    encoded: usize,
    answers: Vec<u8>,
    /// Items that the enclave has read, over all connections.
    read: Arc<Mutex<Vec<u8>>>,
}

impl Run {
    fn new() -> Self {
        let enclave = Arc::new(Enclave::start(1));
        Self {
            verifier: enclave.verifier(),
            enclave,
            connections: 0,
            first_carries: usize::MAX,
            fails_at: None,
            refuses: None,
            encoded: 0,
            answers: Vec::new(),
            read: Arc::default(),
        }
    }

    async fn over(&mut self, items: u8) -> Result<u64, Error> {
        let (send, mut receive) = mpsc::channel(100);
        (0..items).for_each(|item| send.try_send(item).unwrap());
        drop(send);
        bulk::run(self, &mut receive, 8, Backoff::default(), &mut rng(6)).await
    }
}

async fn answer_slowly(
    enclave: Arc<Enclave>,
    stream: DuplexStream,
    seed: u64,
    read: Arc<Mutex<Vec<u8>>>,
) -> Result<(), Error> {
    let Channel {
        mut incoming,
        mut outgoing,
        ..
    } = enclave.accept(stream, seed).await?;
    while let Some(message) = incoming.receive().await? {
        let answer = message.payload[..9].to_vec();
        read.lock().unwrap().push(answer[8]);
        tokio::time::sleep(Duration::from_secs(1)).await;
        outgoing.send(Kind::Data, &answer).await?;
    }
    outgoing.close().await
}

impl Work for Run {
    type Given = u8;
    type Item = u8;
    type Stream = Breaking;
    type Peer = ();
    type Pending = ();
    type Error = Error;

    async fn connect(&mut self) -> Result<(Channel<Breaking>, ()), Error> {
        self.connections += 1;
        let (near, far) = duplex(1 << 20);
        let (enclave, read) = (Arc::clone(&self.enclave), Arc::clone(&self.read));
        tokio::spawn(answer_slowly(enclave, far, 100 + self.connections, read));
        let near = Breaking {
            pipe: near,
            frames_left: match self.connections {
                1 => self.first_carries,
                _ => usize::MAX,
            },
        };
        let mut rng = rng(200 + self.connections);
        let mut channel = connect(near, &mut self.verifier, NOW, DEADLINE, &mut rng).await?;
        channel.incoming.set_timeout(Some(Duration::from_secs(30)));
        Ok((channel, ()))
    }

    fn admit(&mut self, item: u8) -> Result<Vec<u8>, Error> {
        Ok(vec![item])
    }

    fn encode(&mut self, (): &(), item: &u8) -> Result<(Vec<u8>, ()), Error> {
        self.encoded += 1;
        if self.refuses == Some(*item) {
            return Err(Error::OutOfTurn);
        }
        match self.fails_at {
            Some(call) if call == self.encoded => Err(Error::Silent),
            _ => Ok((vec![*item; ITEM], ())),
        }
    }

    fn answer(
        &mut self,
        (): &(),
        item: &u8,
        (): (),
        message: Message<'_>,
    ) -> Result<Vec<u8>, Error> {
        assert_eq!(message.payload, [*item]);
        self.answers.push(*item);
        Ok(Vec::new())
    }

    fn is_transient(error: &Error) -> bool {
        error.is_transient()
    }
}

#[tokio::test(start_paused = true)]
async fn answers_in_flight_are_kept_where_writing_fails_first() {
    for carried in 0..4 {
        let mut run = Run::new();
        run.first_carries = carried;
        assert_eq!(run.over(6).await.unwrap(), 6);
        assert_eq!(run.answers, [0, 1, 2, 3, 4, 5]);
        assert_eq!(run.connections, 2);
        let read = run.read.lock().unwrap().clone();
        assert_eq!(read, [0, 1, 2, 3, 4, 5], "nothing was computed twice");
    }
}

#[tokio::test(start_paused = true)]
async fn an_item_that_cannot_be_encoded_now_is_not_lost() {
    for call in 1..=4 {
        let mut run = Run::new();
        run.fails_at = Some(call);
        assert_eq!(run.over(4).await.unwrap(), 4, "call {call}");
        assert_eq!(run.answers, [0, 1, 2, 3]);
    }
}

#[tokio::test(start_paused = true)]
async fn an_item_that_is_never_sent_costs_no_answer_to_those_before_it() {
    for first_carries in [2, usize::MAX] {
        let mut run = Run::new();
        run.first_carries = first_carries;
        run.refuses = Some(5);
        let outcome = run.over(8).await;
        assert!(matches!(outcome, Err(Error::OutOfTurn)), "{outcome:?}");
        assert_eq!(run.answers, [0, 1, 2, 3, 4]);
        assert!(run.connections <= 2);
    }
}
