//! Bulk runs: complete and in order, over connections that are cut, refused or full.
#![allow(missing_docs)]
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use channel::bulk::{self, Backoff, Work};
use channel::{Channel, Error, Message};
use protocol::channel::frame::Kind;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::mpsc;

use crate::common::{Enclave, client, echo, rng};

/// Sends items unchanged, over connections that a closure makes.
struct Unchanged<C, A> {
    connect: C,
    answer: A,
    answered: u64,
}

impl<S, C, A> Work for Unchanged<C, A>
where
    S: AsyncRead + AsyncWrite,
    C: AsyncFnMut() -> Result<Channel<S>, Error>,
    A: FnMut(u64, Kind, &[u8]),
{
    type Given = Vec<u8>;
    type Item = Vec<u8>;
    type Stream = S;
    type Peer = ();
    type Pending = ();
    type Error = Error;

    async fn connect(&mut self) -> Result<(Channel<S>, ()), Error> {
        Ok(((self.connect)().await?, ()))
    }

    fn admit(&mut self, item: Vec<u8>) -> Result<Vec<Vec<u8>>, Error> {
        Ok(vec![item])
    }

    fn encode(&mut self, (): &(), item: &Vec<u8>) -> Result<(Vec<u8>, ()), Error> {
        Ok((item.clone(), ()))
    }

    fn answer(
        &mut self,
        (): &(),
        _: &Vec<u8>,
        (): (),
        message: Message<'_>,
    ) -> Result<Vec<Vec<u8>>, Error> {
        (self.answer)(self.answered, message.kind, message.payload);
        self.answered += 1;
        Ok(Vec::new())
    }

    fn is_transient(error: &Error) -> bool {
        error.is_transient()
    }
}

async fn run<S: AsyncRead + AsyncWrite>(
    items: impl Iterator<Item = Vec<u8>>,
    window: usize,
    connect: impl AsyncFnMut() -> Result<Channel<S>, Error>,
    answer: impl FnMut(u64, Kind, &[u8]),
) -> Result<u64, Error> {
    let (send, mut receive) = mpsc::channel(2_000);
    items.for_each(|item| send.try_send(item).unwrap());
    drop(send);
    let mut work = Unchanged {
        connect,
        answer,
        answered: 0,
    };
    bulk::run(
        &mut work,
        &mut receive,
        window,
        Backoff::default(),
        &mut rng(6),
    )
    .await
}

/// Relays, and cuts the connection after `bytes` from the server.
async fn cut_after(mut near: DuplexStream, mut far: DuplexStream, bytes: usize) {
    let (mut near_read, mut near_write) = tokio::io::split(&mut near);
    let (mut far_read, mut far_write) = tokio::io::split(&mut far);
    let up = tokio::io::copy(&mut near_read, &mut far_write);
    let down = async {
        let mut left = bytes;
        let mut buffer = [0; 256];
        while left > 0 {
            let limit = left.min(buffer.len());
            match far_read.read(&mut buffer[..limit]).await {
                Ok(0) | Err(_) => return,
                Ok(count) => {
                    left -= count;
                    if near_write.write_all(&buffer[..count]).await.is_err() {
                        return;
                    }
                }
            }
        }
    };
    tokio::select! { _ = up => (), () = down => () }
}

#[tokio::test(start_paused = true)]
async fn bulk_is_complete_and_in_order_over_cut_connections() {
    const ITEMS: u64 = 1_000;
    let enclave = Arc::new(Enclave::start(1));
    let mut verifier = enclave.verifier();
    let connections = AtomicUsize::new(0);
    let items = (0..ITEMS).map(|number| format!("item {number}").into_bytes());
    let mut output = Vec::new();
    let answered = run(
        items,
        32,
        async || {
            let at = connections.fetch_add(1, Ordering::Relaxed);
            let (near, relay_near) = duplex(512);
            let (relay_far, far) = duplex(512);
            // Within the handshake, within a frame, or between frames. Some connections bring no answer.
            tokio::spawn(cut_after(relay_near, relay_far, 100 + (at * 977) % 9_000));
            let enclave = Arc::clone(&enclave);
            tokio::spawn(async move { echo(far, &enclave, 1_000 + at as u64).await });
            client(near, &mut verifier, 5_000 + at as u64).await
        },
        |number, kind, payload| {
            assert_eq!(kind, Kind::Data);
            output.push((number, String::from_utf8(payload.to_vec()).unwrap()));
        },
    )
    .await
    .unwrap();
    assert_eq!(answered, ITEMS);
    let expected: Vec<_> = (0..ITEMS)
        .map(|number| (number, format!("item {number}")))
        .collect();
    assert_eq!(output, expected);
    let connections = connections.into_inner();
    assert!(
        connections > 10,
        "{connections} connections: nothing was cut"
    );
}

#[tokio::test(start_paused = true)]
async fn refused_evidence_is_not_retried_and_a_dead_network_not_for_ever() {
    let (enclave, other) = (Enclave::start(1), Enclave::start(2));
    let mut verifier = other.verifier();
    let attempts = AtomicUsize::new(0);
    let items = || (0..5).map(|number: u8| vec![number]);
    let outcome = run(
        items(),
        4,
        async || {
            attempts.fetch_add(1, Ordering::Relaxed);
            let (near, far) = duplex(64 * 1024);
            let (_, client) = tokio::join!(
                async { enclave.accept(far, 10).await.map(|_| ()) },
                client(near, &mut verifier, 7)
            );
            client
        },
        |_, _, _| panic!("an answer from an enclave that was refused"),
    )
    .await;
    assert!(matches!(outcome, Err(Error::Refused(_))), "{outcome:?}");
    assert_eq!(attempts.load(Ordering::Relaxed), 1);

    attempts.store(0, Ordering::Relaxed);
    let outcome = run(
        items(),
        4,
        async || -> Result<Channel<DuplexStream>, Error> {
            attempts.fetch_add(1, Ordering::Relaxed);
            Err(std::io::Error::from(std::io::ErrorKind::ConnectionRefused).into())
        },
        |_, _, _| (),
    )
    .await;
    assert_eq!(outcome.unwrap_err().code(), "CHANNEL_IO");
    assert_eq!(attempts.into_inner(), 11);
}

/// Both directions are full at once, and neither end waits for the other.
#[tokio::test]
async fn bulk_does_not_deadlock_where_both_directions_are_full() {
    let enclave = Enclave::start(1);
    let mut verifier = enclave.verifier();
    let (near, far) = duplex(256);
    let server = async {
        let Channel {
            mut incoming,
            mut outgoing,
            ..
        } = enclave.accept(far, 10).await?;
        while let Some(message) = incoming.receive().await? {
            let mut large = vec![1; 4_096];
            large[..8].copy_from_slice(&message.payload[..8]);
            outgoing.send(Kind::Tensor, &large).await?;
        }
        outgoing.close().await
    };
    let mut stream = Some(near);
    let mut seen = 0;
    let work = async {
        run(
            (0..200).map(|_| vec![0; 4_096]),
            64,
            async || client(stream.take().unwrap(), &mut verifier, 9).await,
            |_, _, _| seen += 1,
        )
        .await
    };
    let (served, answered) = tokio::join!(server, work);
    // A client that has all answers may leave before the server's last frame.
    assert!(matches!(served, Ok(()) | Err(Error::Io(_))), "{served:?}");
    assert_eq!(answered.unwrap(), 200);
    assert_eq!(seen, 200);
}

/// Refuses the third item of each connection, or ends each peer after two answers, as when a proof expires in the middle of a run.
struct EndsEarly<C> {
    connect: C,
    encoded: usize,
    answers: Vec<Vec<u8>>,
    refuses: bool,
}

impl<S, C> Work for EndsEarly<C>
where
    S: AsyncRead + AsyncWrite,
    C: AsyncFnMut() -> Result<Channel<S>, Error>,
{
    type Given = Vec<u8>;
    type Item = Vec<u8>;
    type Stream = S;
    type Peer = tokio::sync::watch::Sender<usize>;
    type Pending = ();
    type Error = Error;

    async fn connect(&mut self) -> Result<(Channel<S>, Self::Peer), Error> {
        self.encoded = 0;
        Ok(((self.connect)().await?, Self::Peer::new(0)))
    }

    fn admit(&mut self, item: Vec<u8>) -> Result<Vec<Vec<u8>>, Error> {
        Ok(vec![item])
    }

    fn encode(&mut self, _: &Self::Peer, item: &Vec<u8>) -> Result<(Vec<u8>, ()), Error> {
        self.encoded += 1;
        match self.refuses && self.encoded == 3 {
            true => Err(Error::Channel(protocol::channel::ChannelError::Expired)),
            false => Ok((item.clone(), ())),
        }
    }

    fn answer(
        &mut self,
        peer: &Self::Peer,
        _: &Vec<u8>,
        (): (),
        message: Message<'_>,
    ) -> Result<Vec<Vec<u8>>, Error> {
        self.answers.push(message.payload.to_vec());
        peer.send_modify(|answers| *answers += 1);
        Ok(Vec::new())
    }

    fn is_transient(error: &Error) -> bool {
        error.is_transient()
    }

    async fn ended(peer: &Self::Peer) {
        let mut answers = peer.subscribe();
        let _ = answers.wait_for(|answers| *answers == 2).await;
    }
}

#[tokio::test(start_paused = true)]
async fn no_item_is_lost_when_a_proof_expires_in_the_middle_of_a_run() {
    const ITEMS: u8 = 20;
    let enclave = Arc::new(Enclave::start(1));
    for (refuses, window) in [(true, 1), (true, 4), (false, 1), (false, 4)] {
        let mut verifier = enclave.verifier();
        let mut connections = 0;
        let (send, mut receive) = mpsc::channel(1);
        let items = async move {
            for number in 0..ITEMS {
                send.send(vec![number]).await.unwrap();
            }
        };
        let mut work = EndsEarly {
            connect: async || {
                connections += 1;
                let (near, far) = duplex(64 * 1024);
                let (enclave, seed) = (Arc::clone(&enclave), connections);
                tokio::spawn(async move { echo(far, &enclave, seed).await });
                client(near, &mut verifier, 1_000 + seed).await
            },
            encoded: 0,
            answers: Vec::new(),
            refuses,
        };
        let backoff = Backoff {
            attempts: 100,
            ..Backoff::default()
        };
        let mut rng = rng(6);
        let run = bulk::run(&mut work, &mut receive, window, backoff, &mut rng);
        let (answered, ()) = tokio::join!(run, items);
        assert_eq!(answered.unwrap(), u64::from(ITEMS));
        let numbers: Vec<_> = work.answers.iter().map(|answer| answer[0]).collect();
        assert_eq!(numbers, (0..ITEMS).collect::<Vec<_>>());
    }
}
