//! Channels over real streams, and over relays that mean no good.
#![allow(missing_docs)]
#![allow(clippy::unwrap_used)]

mod scene;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use channel::bulk::{self, Backoff, Work};
use channel::{Channel, Error, Message, Verifier, connect, connect_known};
use protocol::channel::frame::{Kind, MAX_MESSAGE, MAX_PAYLOAD};
use protocol::channel::tensor::{Tensor, append_floats};
use scene::{DEADLINE, Enclave, NOW, rng};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::mpsc;

/// Items as they are, over connections that a closure makes.
struct Plain<C, A> {
    connect: C,
    answer: A,
    answered: u64,
}

impl<S, C, A> Work for Plain<C, A>
where
    S: AsyncRead + AsyncWrite,
    C: AsyncFnMut() -> Result<Channel<S>, Error>,
    A: FnMut(u64, Kind, &[u8]),
{
    type Item = Vec<u8>;
    type Stream = S;
    type Peer = ();
    type Pending = ();
    type Error = Error;

    async fn connect(&mut self) -> Result<(Channel<S>, ()), Error> {
        Ok(((self.connect)().await?, ()))
    }

    fn encode(&mut self, (): &(), item: &Vec<u8>) -> Result<(Vec<u8>, ()), Error> {
        Ok((item.clone(), ()))
    }

    fn answer(&mut self, (): &(), _: &Vec<u8>, (): (), message: Message<'_>) -> Result<(), Error> {
        (self.answer)(self.answered, message.kind, message.payload);
        self.answered += 1;
        Ok(())
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
    let mut work = Plain {
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

/// Answers each message with itself, until the peer closes.
async fn echo<S: AsyncRead + AsyncWrite>(
    stream: S,
    enclave: &Enclave,
    seed: u64,
) -> Result<(), Error> {
    let Channel {
        mut incoming,
        mut outgoing,
        ..
    } = enclave.accept(stream, seed).await?;
    while let Some(message) = incoming.receive().await? {
        let (kind, payload) = (message.kind, message.payload.to_vec());
        outgoing.send(kind, &payload).await?;
    }
    outgoing.close().await
}

async fn client<S: AsyncRead + AsyncWrite>(
    stream: S,
    verifier: &mut Verifier,
    seed: u64,
) -> Result<Channel<S>, Error> {
    connect(stream, verifier, NOW, DEADLINE, &mut rng(seed)).await
}

async fn round_trips<S: AsyncRead + AsyncWrite>(stream: S, verifier: &mut Verifier) {
    let mut channel = client(stream, verifier, 2).await.unwrap();
    for length in [
        0,
        1,
        16,
        1_536,
        4_096,
        65_537,
        MAX_PAYLOAD,
        MAX_PAYLOAD + 1,
        3 << 20,
    ] {
        let payload: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
        let mut scratch = payload.clone();
        let sent = channel.outgoing.send_in_place(Kind::Data, &mut scratch);
        let received = async {
            let message = channel.incoming.receive().await.unwrap().unwrap();
            assert_eq!(message.kind, Kind::Data);
            assert!(message.payload == payload, "{length} bytes");
        };
        let (sent, ()) = tokio::join!(sent, received);
        sent.unwrap();
    }
    let elements: Vec<f32> = (0..768).map(|at| at as f32).collect();
    for odd in [&b"x"[..], b"odd length"] {
        channel.outgoing.send(Kind::Data, odd).await.unwrap();
        let mut tensor = Vec::new();
        append_floats(&[2, 384], "v", &elements, &mut tensor).unwrap();
        channel.outgoing.send(Kind::Tensor, &tensor).await.unwrap();
        assert_eq!(
            channel.incoming.receive().await.unwrap().unwrap().payload,
            odd
        );
        let message = channel.incoming.receive().await.unwrap().unwrap();
        // Borrowed: aligned although an odd frame came before it.
        assert_eq!(
            Tensor::parse(message.payload).unwrap().floats().unwrap(),
            elements
        );
    }
    channel.outgoing.close().await.unwrap();
    assert!(channel.incoming.receive().await.unwrap().is_none());
}

#[tokio::test]
async fn every_stream_carries_a_channel() {
    let enclave = Enclave::start(1);
    let mut verifier = enclave.verifier();
    let (near, far) = duplex(64 * 1024);
    let (served, ()) = tokio::join!(echo(far, &enclave, 10), round_trips(near, &mut verifier));
    served.unwrap();

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = async { echo(listener.accept().await.unwrap().0, &enclave, 11).await };
    let client = async {
        let stream = tokio::net::TcpStream::connect(address).await.unwrap();
        round_trips(stream, &mut verifier).await;
    };
    tokio::join!(server, client).0.unwrap();

    let (near, far) = tokio::net::UnixStream::pair().unwrap();
    let (served, ()) = tokio::join!(echo(far, &enclave, 12), round_trips(near, &mut verifier));
    served.unwrap();
    assert_eq!(enclave.documents(), 1, "the second and third were endorsed");
}

#[tokio::test]
async fn a_known_enclave_is_the_only_one() {
    let (enclave, other) = (Enclave::start(1), Enclave::start(2));
    let mut verifier = enclave.verifier();
    let (near, far) = duplex(64 * 1024);
    let (served, verified) = tokio::join!(enclave.accept(far, 10), client(near, &mut verifier, 3));
    assert!(served.is_ok() && verified.is_ok());
    drop((served, verified));
    let known = verifier.known().unwrap();
    for (server, code) in [(&enclave, None), (&other, Some("CHANNEL_STALE"))] {
        let (near, far) = duplex(64 * 1024);
        let mut seed = rng(4);
        let (_, channel) = tokio::join!(
            async { server.accept(far, 11).await.map(|_| ()) },
            connect_known(near, known, NOW, DEADLINE, &mut seed)
        );
        let error = channel.err();
        assert_eq!(error.as_ref().map(Error::code), code);
        assert!(!error.is_some_and(|error| error.is_transient()));
    }
}

#[tokio::test]
async fn a_smaller_limit_is_kept_before_memory_is_taken() {
    let enclave = Enclave::start(1);
    let mut verifier = enclave.verifier();
    let (near, far) = duplex(1 << 20);
    let (server, client) = tokio::join!(enclave.accept(far, 10), client(near, &mut verifier, 5));
    let (mut server, mut client) = (server.unwrap(), client.unwrap());
    server.incoming.set_limit(1_000);
    client.outgoing.send(Kind::Data, &[0; 1_000]).await.unwrap();
    let message = server.incoming.receive().await.unwrap().unwrap();
    assert_eq!(message.payload.len(), 1_000);
    client.outgoing.send(Kind::Data, &[0; 1_001]).await.unwrap();
    let error = server.incoming.receive().await.unwrap_err();
    assert_eq!(error.code(), "CHANNEL_TOO_LARGE");
}

#[tokio::test]
async fn one_byte_at_a_time_is_enough() {
    let enclave = Enclave::start(1);
    let mut verifier = enclave.verifier();
    let (near, far) = duplex(1);
    let work = async {
        let mut channel = client(near, &mut verifier, 3).await.unwrap();
        channel.outgoing.send(Kind::Data, b"slowly").await.unwrap();
        let message = channel.incoming.receive().await.unwrap().unwrap();
        assert_eq!(message.payload, b"slowly");
        channel.outgoing.close().await.unwrap();
        assert!(channel.incoming.receive().await.unwrap().is_none());
    };
    tokio::join!(echo(far, &enclave, 10), work).0.unwrap();
}

/// A peer that says nothing at each of the states, on a clock that does not wait.
#[tokio::test(start_paused = true)]
async fn a_peer_that_stalls_is_left() {
    let enclave = Enclave::start(1);
    let mut verifier = enclave.verifier();
    // The server never answers; the client never speaks; the client stops after its hello.
    let (near, _far) = duplex(4_096);
    assert!(matches!(
        client(near, &mut verifier, 4).await,
        Err(Error::Silent)
    ));
    let (_near, far) = duplex(4_096);
    assert!(matches!(enclave.accept(far, 10).await, Err(Error::Silent)));
    let (mut near, far) = duplex(64 * 1024);
    let (hello, _) = protocol::channel::begin(Default::default(), &mut rng(4)).unwrap();
    let hello = protocol::channel::frame::Step::ClientHello.frame(&hello);
    near.write_all(&hello).await.unwrap();
    assert!(matches!(enclave.accept(far, 10).await, Err(Error::Silent)));
    // Within a session, and within a frame.
    for begun in [0, 5, 20] {
        let (near, far) = duplex(64 * 1024);
        let (server, client) =
            tokio::join!(enclave.accept(far, 11), client(near, &mut verifier, 5));
        let (mut server, client) = (server.unwrap(), client.unwrap());
        server.incoming.set_patience(Some(Duration::from_secs(30)));
        let mut frame = [0; 20];
        frame[3] = 40;
        frame[4] = Kind::Data as u8;
        let _held = scene::write_raw(client, &frame[..begun]).await;
        assert!(
            matches!(server.incoming.receive().await, Err(Error::Silent)),
            "{begun}"
        );
    }
}

#[tokio::test]
async fn a_cut_connection_is_never_an_end() {
    let enclave = Enclave::start(1);
    let mut verifier = enclave.verifier();
    let (near, far) = duplex(64 * 1024);
    let (server, client) = tokio::join!(enclave.accept(far, 10), client(near, &mut verifier, 5));
    let mut server = server.unwrap();
    drop(client.unwrap());
    let error = server.incoming.receive().await.unwrap_err();
    assert_eq!(error.code(), "CHANNEL_CUT_OFF");
    assert!(error.is_transient());
}

#[tokio::test]
async fn messages_have_a_limit_whatever_their_frames_add_up_to() {
    let enclave = Enclave::start(1);
    let mut verifier = enclave.verifier();
    let (near, far) = duplex(1 << 20);
    let (server, client) = tokio::join!(enclave.accept(far, 10), client(near, &mut verifier, 5));
    let (mut server, mut client) = (server.unwrap(), client.unwrap());
    let mut payload = vec![0; MAX_MESSAGE + 1];
    let (received, _) = tokio::join!(
        async {
            let error = server.incoming.receive().await.unwrap_err();
            drop(server);
            error
        },
        client.outgoing.send_in_place(Kind::Data, &mut payload)
    );
    assert_eq!(received.code(), "CHANNEL_TOO_LARGE");
}

/// A relay that cuts the connection after so many bytes from the server, each time at another place.
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
async fn bulk_is_complete_and_in_order_however_often_it_is_cut() {
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
            // Within the handshake, within a frame, between two: some connections bring nothing at all.
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
async fn refused_evidence_is_not_tried_again_and_a_dead_network_not_for_ever() {
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

/// Both directions full at once: neither end waits for the other.
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
    // A client with all its answers may be gone before the server's last frame.
    assert!(matches!(served, Ok(()) | Err(Error::Io(_))), "{served:?}");
    assert_eq!(answered.unwrap(), 200);
    assert_eq!(seen, 200);
}

/// Refuses each connection its third item, or ends each peer after two answers, as where a proof ends in the middle of a run.
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
    type Item = Vec<u8>;
    type Stream = S;
    type Peer = tokio::sync::watch::Sender<usize>;
    type Pending = ();
    type Error = Error;

    async fn connect(&mut self) -> Result<(Channel<S>, Self::Peer), Error> {
        self.encoded = 0;
        Ok(((self.connect)().await?, Self::Peer::new(0)))
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
    ) -> Result<(), Error> {
        self.answers.push(message.payload.to_vec());
        peer.send_modify(|answers| *answers += 1);
        Ok(())
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
async fn no_item_is_lost_where_a_proof_ends_in_the_middle_of_a_run() {
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
