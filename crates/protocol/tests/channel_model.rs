//! Explores every interleaving of two sessions under an attacker who controls the network, exhaustively over the real code.
//!
//! Two clients and two servers of one enclave run a short script each. The attacker delivers any message ever sent,
//! and splices of them, to any endpoint, in any order, any number of times, or never: so loss, replay, reordering,
//! reflection and splicing are all delivery. An endpoint is a function of its accepted messages, so each step is
//! computed once, and the product of the four is searched breadth-first until no new state is found.
#![allow(missing_docs)]
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::collections::{HashMap, HashSet, VecDeque};

use attestation::cbor::{Reader, Rules, Writer};
use attestation::{Kem, SignatureMemory};
use fixtures::channel::{AES, END, START, frame, open};
use fixtures::enclave::{Enclave, NOW};
use fixtures::rng;
use protocol::channel::frame::Kind;
use protocol::channel::{
    Accepted, AwaitingKey, ClientOptions, Offer, ReceivedHello, Receiver, Sender, Session, begin,
};

type Message = usize;
type Local = usize;

const CLIENTS: [usize; 2] = [0, 1];
const SERVERS: [usize; 2] = [2, 3];
const SCRIPT: [Kind; 2] = [Kind::Data, Kind::Shutdown];

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Status {
    Open,
    Dead,
    Closed,
}

/// One endpoint after some deliveries.
#[derive(Clone, Debug)]
struct State {
    history: Vec<Message>,
    sent: Vec<Message>,
    session: Option<[u8; 32]>,
    accepted: Vec<Vec<u8>>,
    status: Status,
}

/// All computed states and messages.
struct World {
    enclave: Enclave,
    memory: SignatureMemory,
    messages: Vec<Vec<u8>>,
    ids: HashMap<Vec<u8>, Message>,
    /// Splices that exist as soon as both of their sources were sent.
    splices: Vec<(Message, Message, Message)>,
    states: Vec<State>,
    of_history: HashMap<(usize, Vec<Message>, Status), Local>,
    steps: HashMap<(usize, Local, Message), Local>,
    /// Which bytes were sealed as which frame of which direction of which session.
    sealed: HashMap<([u8; 32], bool, u64), Vec<u8>>,
}

#[test]
fn no_schedule_of_two_sessions_breaks_a_goal() {
    let mut world = World::new();
    let start: [Local; 4] = std::array::from_fn(|endpoint| world.at(endpoint, &[]));
    let mut seen = HashSet::from([start]);
    let mut queue = VecDeque::from([start]);
    let (mut both_closed, mut crossed) = (false, false);
    while let Some(state) = queue.pop_front() {
        world.check(&state);
        both_closed |= state
            .iter()
            .all(|local| world.states[*local].status == Status::Closed);
        crossed |=
            world.session(state[0]).is_some() && world.session(state[0]) == world.session(state[3]);
        let pool = world.pool(&state);
        for (endpoint, local) in state.into_iter().enumerate() {
            if world.states[local].status != Status::Open {
                continue;
            }
            for message in &pool {
                let mut next = state;
                next[endpoint] = world.deliver(endpoint, local, *message);
                if seen.insert(next) {
                    queue.push_back(next);
                }
            }
        }
    }
    println!(
        "{} states, {} messages, {} steps of an endpoint",
        seen.len(),
        world.messages.len(),
        world.steps.len()
    );
    // The exploration reached the states of interest: two whole sessions, and either client with either server.
    assert!(both_closed && crossed);
    assert!(seen.len() > 1_000, "{}", seen.len());
}

impl World {
    fn new() -> Self {
        Self {
            enclave: Enclave::start(1),
            memory: SignatureMemory::new(),
            messages: Vec::new(),
            ids: HashMap::new(),
            splices: Vec::new(),
            states: Vec::new(),
            of_history: HashMap::new(),
            steps: HashMap::new(),
            sealed: HashMap::new(),
        }
    }

    fn session(&self, local: Local) -> Option<[u8; 32]> {
        self.states[local].session
    }

    /// Messages that the attacker can deliver: all that were sent, and every splice of them.
    fn pool(&self, state: &[Local; 4]) -> Vec<Message> {
        let mut pool: HashSet<Message> = state
            .iter()
            .flat_map(|local| self.states[*local].sent.iter().copied())
            .collect();
        let spliced = self
            .splices
            .iter()
            .filter(|(one, two, _)| pool.contains(one) && pool.contains(two));
        let spliced: Vec<_> = spliced.map(|(.., message)| *message).collect();
        pool.extend(spliced);
        let mut pool: Vec<_> = pool.into_iter().collect();
        pool.sort_unstable();
        pool
    }

    fn deliver(&mut self, endpoint: usize, local: Local, message: Message) -> Local {
        if let Some(next) = self.steps.get(&(endpoint, local, message)) {
            return *next;
        }
        let mut history = self.states[local].history.clone();
        history.push(message);
        let next = self.at(endpoint, &history);
        self.steps.insert((endpoint, local, message), next);
        next
    }

    /// The endpoint after these deliveries. After an error it accepts nothing more; its earlier messages stay known.
    fn at(&mut self, endpoint: usize, history: &[Message]) -> Local {
        let mut state = if CLIENTS.contains(&endpoint) {
            self.client(endpoint, history)
        } else {
            self.server(endpoint, history)
        };
        if state.status == Status::Dead {
            state.history.pop();
        }
        let key = (endpoint, state.history.clone(), state.status);
        if let Some(local) = self.of_history.get(&key) {
            return *local;
        }
        self.states.push(state);
        let local = self.states.len() - 1;
        self.of_history.insert(key, local);
        local
    }

    fn client(&mut self, endpoint: usize, history: &[Message]) -> State {
        let mut rng = rng(100 + endpoint as u64);
        let options = ClientOptions {
            kems: &[Kem::X25519],
            aeads: AES,
            ..ClientOptions::default()
        };
        let (hello, awaiting) = begin(options, &mut rng).unwrap();
        let mut state = State::new(history);
        state.sent.push(self.intern(hello));
        let Some((first, rest)) = history.split_first() else {
            return state;
        };
        let answer = self.messages[*first].clone();
        let attested = match awaiting.receive(&answer) {
            Ok(Offer::Documented(offer)) => {
                let (_, judged) = offer.appraise(&self.enclave.policy, NOW, &mut self.memory);
                judged.including_simulated().ok().flatten()
            }
            _ => None,
        };
        let Some(attested) = attested else {
            return state.dead();
        };
        let (key, session) = attested.finish(START, &mut rng).unwrap();
        let key = self.intern(key);
        state.sent.push(key);
        self.splice_keys(key);
        self.established(endpoint, session, rest, state)
    }

    fn server(&mut self, endpoint: usize, history: &[Message]) -> State {
        let mut rng = rng(200 + endpoint as u64);
        let mut state = State::new(history);
        let Some((first, rest)) = history.split_first() else {
            return state;
        };
        let hello = self.messages[*first].clone();
        let Ok(arrival) = ReceivedHello::read(&hello, AES) else {
            return state.dead();
        };
        let (answer, awaiting): (_, AwaitingKey) =
            self.enclave.answer_hello(arrival.prepare(&mut rng));
        let answer = self.intern(answer);
        state.sent.push(answer);
        self.splice_answers(answer);
        let Some((second, rest)) = rest.split_first() else {
            return state;
        };
        match awaiting.receive(&self.messages[*second], START, END) {
            Ok(Accepted::Anonymous(session)) => self.established(endpoint, session, rest, state),
            _ => state.dead(),
        }
    }

    /// Both sides send their script as soon as there is a session, and read incoming frames.
    fn established(
        &mut self,
        endpoint: usize,
        session: Session,
        rest: &[Message],
        mut state: State,
    ) -> State {
        let Session {
            mut sender,
            mut receiver,
            id,
            ..
        } = session;
        state.session = Some(id);
        self.speak(endpoint, id, &mut sender, &mut state);
        self.listen(&mut receiver, rest, state)
    }

    fn speak(&mut self, endpoint: usize, id: [u8; 32], sender: &mut Sender, state: &mut State) {
        for (sequence, kind) in SCRIPT.into_iter().enumerate() {
            let sealed = frame(sender, kind, &line(endpoint, sequence));
            let client = CLIENTS.contains(&endpoint);
            // Goal 5: one frame for each sequence number, whatever an attacker had delivered before.
            let before = self
                .sealed
                .insert((id, client, sequence as u64), sealed.clone());
            assert!(before.is_none_or(|before| before == sealed));
            state.sent.push(self.intern(sealed));
        }
    }

    fn listen(&mut self, receiver: &mut Receiver, rest: &[Message], mut state: State) -> State {
        for message in rest {
            match open(receiver, &self.messages[*message]) {
                Ok((_, payload)) => state.accepted.push(payload),
                Err(_) => return state.dead(),
            }
        }
        if receiver.is_closed() {
            assert_eq!(receiver.end(), Ok(()));
            state.status = Status::Closed;
        } else {
            assert!(receiver.end().is_err(), "cut off and not noticed");
        }
        state
    }

    fn intern(&mut self, message: Vec<u8>) -> Message {
        if let Some(id) = self.ids.get(&message) {
            return *id;
        }
        self.messages.push(message.clone());
        let id = self.messages.len() - 1;
        self.ids.insert(message, id);
        id
    }

    /// The document of one answer with the manifest of another.
    fn splice_answers(&mut self, new: Message) {
        let Some((document, manifest)) = parts(&self.messages[new]) else {
            return;
        };
        for other in 0..self.messages.len() {
            if let Some((other_document, other_manifest)) =
                parts(&self.messages[other]).filter(|_| other != new)
            {
                for spliced in [
                    answer(&document, &other_manifest),
                    answer(&other_document, &manifest),
                ] {
                    self.splice(new, other, spliced);
                }
            }
        }
    }

    /// The encapsulation of one client key with the confirmation of another.
    fn splice_keys(&mut self, new: Message) {
        let key = self.messages[new].clone();
        let alike =
            |message: &Vec<u8>| message.len() == key.len() && message.starts_with(&[0xa2, 1]);
        for other in 0..self.messages.len() {
            if other != new && alike(&self.messages[other]) {
                let other_key = self.messages[other].clone();
                let at = key.len() - 32;
                for spliced in [
                    [&key[..at], &other_key[at..]].concat(),
                    [&other_key[..at], &key[at..]].concat(),
                ] {
                    self.splice(new, other, spliced);
                }
            }
        }
    }

    fn splice(&mut self, one: Message, two: Message, spliced: Vec<u8>) {
        if !self.ids.contains_key(&spliced) {
            let message = self.intern(spliced);
            self.splices.push((one, two, message));
        }
    }

    /// The goals of docs/CHANNEL.md, in this state of the world.
    fn check(&self, state: &[Local; 4]) {
        for server in SERVERS {
            let held = &self.states[state[server]];
            let Some(id) = held.session else { continue };
            // Goal 2: each server's session belongs to exactly one client, and no two servers share one.
            let clients: Vec<_> = CLIENTS
                .into_iter()
                .filter(|client| self.session(state[*client]) == Some(id))
                .collect();
            assert_eq!(clients.len(), 1, "a session without its client");
            self.agree(held, &self.states[state[clients[0]]], clients[0]);
        }
        if let (Some(one), Some(two)) = (self.session(state[2]), self.session(state[3])) {
            assert_ne!(one, two, "two servers in one session");
        }
        for client in CLIENTS {
            let held = &self.states[state[client]];
            let Some(id) = held.session else { continue };
            let server = SERVERS
                .into_iter()
                .find(|server| self.session(state[*server]) == Some(id));
            match server {
                Some(server) => self.agree(held, &self.states[state[server]], server),
                // No one else can have sent it anything.
                None => assert!(held.accepted.is_empty()),
            }
        }
    }

    /// Goals 3 and 4: the accepted messages are the partner's, in its order, from the beginning; and all of them at a close.
    fn agree(&self, held: &State, partner: &State, endpoint: usize) {
        assert_eq!(held.session, partner.session);
        let script: Vec<_> = (0..SCRIPT.len()).map(|at| line(endpoint, at)).collect();
        assert!(script.starts_with(&held.accepted), "out of order");
        assert!(held.status != Status::Closed || held.accepted == script);
    }
}

impl State {
    fn new(history: &[Message]) -> Self {
        Self {
            history: history.to_vec(),
            sent: Vec::new(),
            session: None,
            accepted: Vec::new(),
            status: Status::Open,
        }
    }

    fn dead(mut self) -> Self {
        self.status = Status::Dead;
        self
    }
}

fn line(endpoint: usize, sequence: usize) -> Vec<u8> {
    format!("endpoint {endpoint}, line {sequence}").into_bytes()
}

/// {1: 1, 2: [0, document, manifest], 3: false}
fn parts(message: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let mut reader = Reader::new(message.get(3..)?, Rules::Deterministic);
    message.starts_with(&[0xa3, 1, 1]).then_some(())?;
    (reader.uint().ok()? == 2).then_some(())?;
    reader.array().ok()?;
    (reader.uint().ok()? == 0).then_some(())?;
    let document = reader.bytes().ok()?.to_vec();
    Some((document, reader.bytes().ok()?.to_vec()))
}

fn answer(document: &[u8], manifest: &[u8]) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.map(3).uint(1).uint(1).uint(2).array(3).uint(0);
    writer.bytes(document).bytes(manifest).uint(3).bool(false);
    writer.finish()
}
