//! The client's and the server's handshake, each under one deadline.

use std::time::Duration;

use attestation::{Kem, Policy, SignatureMemory, UnixMillis, VerifiedAttestation};
use protocol::channel::frame::{HEADER, Step, rejection_header};
use protocol::channel::{
    Accepted, Attested, ChannelError, ClientOptions, DocumentedOffer, Hint, MonotonicMillis, Offer,
    Prepared, ReceivedHello, Session, begin, preferred_aeads,
};
use protocol::receipt::ReceiptSigner;
use rand_core::CryptoRng;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};

use crate::error::Refused;
use crate::{Clock, Error, Incoming, Outgoing};

/// An open channel. Its halves are independent.
pub struct Channel<S> {
    /// Receives from the peer.
    pub incoming: Incoming<ReadHalf<S>>,
    /// Sends to the peer.
    pub outgoing: Outgoing<WriteHalf<S>>,
    /// Hash of the handshake; the same at both ends.
    pub id: [u8; 32],
}

/// Appraises servers for a client, and remembers the enclave that it verified.
pub struct Verifier {
    policy: Policy,
    accepts_simulated: bool,
    memory: SignatureMemory,
    known: Option<VerifiedAttestation>,
    crls: Vec<u8>,
    kems: &'static [Kem],
}

impl Verifier {
    /// Accepts enclaves that are *verified* under `policy`.
    pub fn new(policy: Policy) -> Self {
        Self {
            policy,
            accepts_simulated: false,
            memory: SignatureMemory::new(),
            known: None,
            crls: Vec::new(),
            kems: &Kem::ALL,
        }
    }

    /// Appraises documents with these certificate revocation lists, in DER, one after another. A policy may require them.
    #[must_use]
    pub fn with_crls(self, crls: Vec<u8>) -> Self {
        Self { crls, ..self }
    }

    /// Uses X25519 only: the handshake is faster, but a future quantum computer can decrypt recorded sessions.
    #[must_use]
    pub fn classic(self) -> Self {
        Self {
            kems: &[Kem::X25519],
            ..self
        }
    }

    /// Also accepts simulated enclaves, whose operator can read everything. For development.
    #[must_use]
    pub fn including_simulated(self) -> Self {
        Self {
            accepts_simulated: true,
            ..self
        }
    }

    /// The enclave of the last channel. The next handshake names it, so that the server can send an endorsement instead of a document.
    pub fn known(&self) -> Option<&VerifiedAttestation> {
        self.known.as_ref()
    }

    fn appraise(&mut self, offer: DocumentedOffer, now: UnixMillis) -> Result<Attested, Error> {
        let offer = offer.with_crls(self.crls.clone());
        let (report, outcome) = offer.appraise(&self.policy, now, &mut self.memory);
        let attested = match self.accepts_simulated {
            true => outcome.including_simulated(),
            false => outcome.verified(),
        };
        attested?.ok_or_else(|| {
            Error::Refused(Refused {
                code: report.code.unwrap_or_else(|| "SIMULATED".to_owned()),
                message: report.message.unwrap_or_else(|| {
                    "the enclave is simulated, and that was not allowed".to_owned()
                }),
                remedy: report
                    .remedy
                    .unwrap_or_else(|| "Send nothing to it.".to_owned()),
            })
        })
    }
}

/// Opens a channel as a client, within `deadline`. `now` is the client's wall clock at the call; evidence is appraised at the
/// moment at which it arrives.
///
/// # Errors
/// [`Error`]; [`Error::is_transient`] tells whether a retry can help.
pub async fn connect<S: AsyncRead + AsyncWrite>(
    stream: S,
    verifier: &mut Verifier,
    now: UnixMillis,
    deadline: Duration,
    rng: &mut impl CryptoRng,
) -> Result<Channel<S>, Error> {
    let (mut reader, mut writer) = tokio::io::split(stream);
    let clock = Clock::start();
    let handshake = async {
        // An expired attestation cannot be endorsed.
        verifier
            .known
            .take_if(|known| known.clock_offset().to_enclave(now) > known.valid_until());
        let options = ClientOptions {
            known: verifier.known.as_ref(),
            kems: verifier.kems,
            ..ClientOptions::default()
        };
        let (hello, awaiting) = begin(options, rng)?;
        write_step(&mut writer, Step::ClientHello, &hello).await?;
        let answer = read_step(&mut reader, Step::ServerHello).await?;
        let now = clock.wall_time(now);
        let attested = match awaiting.receive(&answer)? {
            Offer::Documented(offer) => verifier.appraise(offer, now)?,
            Offer::Endorsed(offer) => offer.check(now)?,
        };
        verifier.known = Some(attested.attestation().clone());
        let (key, session) = attested.finish(clock.now(), rng)?;
        write_step(&mut writer, Step::ClientKey, &key).await?;
        Ok::<_, Error>(session)
    };
    let session = tokio::time::timeout(deadline, handshake)
        .await
        .map_err(|_| Error::Silent)??;
    Ok(join_halves(reader, writer, session, clock))
}

/// Opens a channel to the enclave behind `known` only, within `deadline`: its receipt key has to endorse the session's key. The
/// caller has appraised its evidence. For `now` see [`connect`].
///
/// # Errors
/// [`Error::Stale`] where the server offers a document instead: verify it again, then connect again.
pub async fn connect_known<S: AsyncRead + AsyncWrite>(
    stream: S,
    known: &VerifiedAttestation,
    now: UnixMillis,
    deadline: Duration,
    rng: &mut impl CryptoRng,
) -> Result<Channel<S>, Error> {
    let (mut reader, mut writer) = tokio::io::split(stream);
    let clock = Clock::start();
    let handshake = async {
        let options = ClientOptions {
            known: Some(known),
            ..ClientOptions::default()
        };
        let (hello, awaiting) = begin(options, rng)?;
        write_step(&mut writer, Step::ClientHello, &hello).await?;
        let answer = read_step(&mut reader, Step::ServerHello).await?;
        let Offer::Endorsed(offer) = awaiting.receive(&answer)? else {
            return Err(Error::Stale);
        };
        let (key, session) = offer
            .check(clock.wall_time(now))?
            .finish(clock.now(), rng)?;
        write_step(&mut writer, Step::ClientKey, &key).await?;
        Ok::<_, Error>(session)
    };
    let session = tokio::time::timeout(deadline, handshake)
        .await
        .map_err(|_| Error::Silent)??;
    Ok(join_halves(reader, writer, session, clock))
}

/// A server's proof that the fresh key is its own.
pub enum Evidence<'a> {
    /// A document for [`Prepared::nonce`] and the manifest that lists [`Prepared::configs`].
    Document {
        /// The document.
        document: Vec<u8>,
        /// The manifest.
        manifest: Vec<u8>,
    },
    /// A signature of the receipt key that the client [knows](ReceivedHello::known).
    Endorsement(&'a ReceiptSigner),
    /// Not available now: the client is rejected.
    Busy,
}

/// Opens a channel as a server, within `deadline`; the session lasts at most `lifetime`.
///
/// `attest` returns evidence for one fresh key. Its second argument is the receipt key that the client knows.
///
/// # Errors
/// [`Error`].
pub async fn accept<'a, S: AsyncRead + AsyncWrite>(
    stream: S,
    attest: impl AsyncFnOnce(&Prepared, Option<[u8; 32]>) -> Evidence<'a>,
    deadline: Duration,
    lifetime: Duration,
    rng: &mut impl CryptoRng,
) -> Result<Channel<S>, Error> {
    let (mut reader, mut writer) = tokio::io::split(stream);
    let clock = Clock::start();
    let handshake = async {
        let hello = read_step(&mut reader, Step::ClientHello).await?;
        let received = ReceivedHello::read(&hello, preferred_aeads())?;
        let known = received.known().copied();
        let prepared = received.prepare(rng);
        let (answer, awaiting) = match attest(&prepared, known).await {
            Evidence::Document { document, manifest } => prepared.document(
                attestation::Evidence {
                    document: &document,
                    manifest: &manifest,
                },
                false,
            ),
            Evidence::Endorsement(signer) => prepared.endorse(signer, false)?,
            Evidence::Busy => {
                writer.write_all(&rejection_header(Hint::Busy)).await?;
                writer.flush().await?;
                return Err(ChannelError::Rejected(Hint::Busy).into());
            }
        };
        write_step(&mut writer, Step::ServerHello, &answer).await?;
        let key = read_step(&mut reader, Step::ClientKey).await?;
        let now = clock.now();
        let lifetime = u64::try_from(lifetime.as_millis()).unwrap_or(u64::MAX);
        let expires = MonotonicMillis(now.0.saturating_add(lifetime));
        match awaiting.receive(&key, now, expires)? {
            Accepted::Anonymous(session) => Ok(session),
            // This server never asks for evidence.
            Accepted::WithEvidence(_) => Err(ChannelError::Malformed.into()),
        }
    };
    let session: Result<Session, Error> = tokio::time::timeout(deadline, handshake)
        .await
        .map_err(|_| Error::Silent)?;
    Ok(join_halves(reader, writer, session?, clock))
}

fn join_halves<S: AsyncRead + AsyncWrite>(
    reader: ReadHalf<S>,
    writer: WriteHalf<S>,
    session: Session,
    clock: Clock,
) -> Channel<S> {
    Channel {
        incoming: Incoming::new(reader, session.receiver),
        outgoing: Outgoing::new(writer, session.sender, clock),
        id: session.id,
    }
}

async fn write_step(
    writer: &mut (impl AsyncWrite + Unpin),
    step: Step,
    message: &[u8],
) -> Result<(), Error> {
    writer.write_all(&step.frame(message)).await?;
    Ok(writer.flush().await?)
}

/// Reads a message of the handshake. Checks its size before allocating memory for it.
async fn read_step(reader: &mut (impl AsyncRead + Unpin), step: Step) -> Result<Vec<u8>, Error> {
    let mut header = [0; HEADER];
    reader.read_exact(&mut header).await?;
    let mut message = vec![0; step.length(&header)?];
    reader.read_exact(&mut message).await?;
    Ok(message)
}
