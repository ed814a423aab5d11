//! Policies: which logs and witnesses count, and how many of them.
//!
//! ```text
//! log VKEY [URL]
//! witness NAME VKEY [URL]
//! group NAME all|any|K MEMBER…       members are witnesses and groups
//! quorum NAME|none
//! ```

use std::collections::{BTreeMap, BTreeSet};

use crate::checkpoint::{Checkpoint, CheckpointError};
use crate::key::{KeyError, Use, Verifier};
use crate::lines::number;
use crate::note::{Note, NoteError};

/// Longest policy in bytes.
pub const MAX_POLICY: usize = 256 << 10;
/// Seconds by which a cosignature's time may be ahead of the clock.
const CLOCK_SKEW: u64 = 300;

/// The text is not a policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, error_codes::Coded)]
#[error("line {line} of the witness policy is wrong: {reason}")]
#[coded(
    "WITNESS_POLICY_INVALID",
    remedy = "Correct the line; c2sp.org/tlog-policy describes the format."
)]
pub struct WitnessPolicyError {
    line: usize,
    reason: String,
}

/// Why a checkpoint is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, error_codes::Coded)]
#[non_exhaustive]
pub enum WitnessedError {
    /// Not a note.
    #[error(transparent)]
    #[coded(transparent)]
    Note(#[from] NoteError),
    /// Not a checkpoint.
    #[error(transparent)]
    #[coded(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// No log of the policy signed it.
    #[error("the checkpoint of {origin:?} is not signed by a log that the policy names")]
    #[coded(
        "WITNESSED_LOG_UNKNOWN",
        remedy = "Check that the checkpoint is of the log that the policy names."
    )]
    UnknownLog {
        /// The origin that the checkpoint states.
        origin: String,
    },
    /// A signature of a known key is wrong.
    #[error("a signature of {name} does not fit the checkpoint")]
    #[coded(
        "WITNESSED_SIG_FAILED",
        remedy = "Do not rely on the checkpoint: it was changed, or signed without the key that it names."
    )]
    Signature {
        /// Name of the key.
        name: String,
    },
    /// Not enough witnesses cosigned.
    #[error(
        "{count} of the policy's {known} witnesses cosigned the checkpoint, which is not its quorum"
    )]
    #[coded(
        "WITNESSES_TOO_FEW",
        remedy = "Get a checkpoint that more witnesses cosigned; if there is none, this history may be shown to you alone."
    )]
    TooFew {
        /// Witnesses that cosigned.
        count: usize,
        /// Witnesses of the policy.
        known: usize,
    },
    /// Enough witnesses cosigned, but too long ago.
    #[error("the quorum's cosignatures are {age} seconds old, and {max_age} are allowed")]
    #[coded(
        "WITNESSED_HEAD_STALE",
        remedy = "Get the newest checkpoint; if it is this one, the log or its witnesses have stopped."
    )]
    Stale {
        /// Age that would have to be allowed, in seconds.
        age: u64,
        /// Allowed age in seconds.
        max_age: u64,
    },
    /// The quorum is met only with times in the future.
    #[error("the cosignatures state a time in the future")]
    #[coded(
        "WITNESSED_HEAD_FUTURE",
        remedy = "Set this machine's clock; if it is right, do not rely on these witnesses."
    )]
    Future,
}

/// A witness of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Witness {
    /// Name within the policy.
    pub name: String,
    /// Its key.
    pub key: Verifier,
    /// Prefix of its address, where the policy states one.
    pub url: Option<String>,
}

/// Reference to a witness or to a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Member {
    Witness(usize),
    Group(usize),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Group {
    threshold: usize,
    members: Vec<Member>,
}

/// A policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    logs: Vec<Verifier>,
    witnesses: Vec<Witness>,
    groups: Vec<Group>,
    /// `None`: no cosignature is required.
    quorum: Option<Member>,
}

/// A checkpoint that the policy accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Witnessed {
    /// Its contents.
    pub checkpoint: Checkpoint,
    /// Names of the witnesses whose cosignatures count, with their times in Unix seconds.
    pub cosigned: Vec<(String, u64)>,
    /// The time by which the quorum had cosigned: the tree existed then. 0 where the policy requires no cosignature.
    pub time: u64,
}

#[derive(Default)]
struct Reader {
    logs: Vec<Verifier>,
    witnesses: Vec<Witness>,
    groups: Vec<Group>,
    names: BTreeMap<String, Member>,
    members: BTreeSet<String>,
    quorum: Option<Option<Member>>,
}

impl Reader {
    fn read(&mut self, words: &[&str]) -> Result<(), String> {
        match *words {
            ["log", key, ref url @ ..] if url.len() <= 1 => {
                let key = read_key(key, Use::Log)?;
                let is_new = self
                    .logs
                    .iter()
                    .all(|log| log.public_key() != key.public_key());
                require(is_new, "another log has the same key")?;
                self.logs.push(key);
                Ok(())
            }
            ["witness", name, key, ref url @ ..] if url.len() <= 1 => {
                let key = read_key(key, Use::Witness)?;
                let mut others = self.witnesses.iter();
                let is_new = others.all(|other| other.key.public_key() != key.public_key());
                require(is_new, "another witness has the same key")?;
                self.define(name, Member::Witness(self.witnesses.len()))?;
                self.witnesses.push(Witness {
                    name: name.to_owned(),
                    key,
                    url: url.first().map(|url| (*url).to_owned()),
                });
                Ok(())
            }
            ["group", name, threshold, ref members @ ..] if !members.is_empty() => {
                let mut found = Vec::new();
                for member in members {
                    found.push(self.find(member)?);
                    let is_first = self.members.insert((*member).to_owned());
                    require(is_first, "a member is in a group already")?;
                }
                let threshold = match threshold {
                    "all" => found.len(),
                    "any" => 1,
                    count => number(count)
                        .and_then(|count| usize::try_from(count).ok())
                        .filter(|count| (1..=found.len()).contains(count))
                        .ok_or("the threshold is not all, any or a number from 1 to that of the members")?,
                };
                self.define(name, Member::Group(self.groups.len()))?;
                self.groups.push(Group {
                    threshold,
                    members: found,
                });
                Ok(())
            }
            ["quorum", name] => {
                require(self.quorum.is_none(), "there is a quorum already")?;
                self.quorum = Some(match name {
                    "none" => None,
                    name => Some(self.find(name)?),
                });
                Ok(())
            }
            _ => Err("it is not one of log, witness, group and quorum with its words".to_owned()),
        }
    }

    fn define(&mut self, name: &str, member: Member) -> Result<(), String> {
        let is_new = name != "none" && self.names.insert(name.to_owned(), member).is_none();
        require(is_new, "the name is taken")
    }

    fn find(&self, name: &str) -> Result<Member, String> {
        let found = self.names.get(name).copied();
        found.ok_or_else(|| format!("no earlier line defines {name:?}"))
    }
}

fn require(holds: bool, reason: &str) -> Result<(), String> {
    match holds {
        true => Ok(()),
        false => Err(reason.to_owned()),
    }
}

fn read_key(text: &str, r#use: Use) -> Result<Verifier, String> {
    let key = Verifier::parse(text).map_err(|error| error.to_string())?;
    match (key.key_use() == r#use, r#use) {
        (true, _) => Ok(key),
        (false, Use::Log) => Err("the key is not one of a log (type 0x01)".to_owned()),
        (false, Use::Witness) => Err("the key is not one of a witness (type 0x04)".to_owned()),
    }
}

impl Policy {
    /// Reads a policy.
    ///
    /// # Errors
    /// [`WitnessPolicyError`].
    pub fn parse(bytes: &[u8]) -> Result<Self, WitnessPolicyError> {
        let at = |line, reason: &str| WitnessPolicyError {
            line,
            reason: reason.to_owned(),
        };
        if bytes.len() > MAX_POLICY {
            return Err(at(1, "the policy is too long"));
        }
        let text = std::str::from_utf8(bytes).map_err(|_| at(1, "it is not UTF-8"))?;
        let mut reader = Reader::default();
        let mut last = 1;
        for (number, line) in (1..).zip(text.split('\n')) {
            last = number;
            if line
                .chars()
                .any(|letter| letter.is_ascii_control() && letter != '\t')
            {
                return Err(at(number, "it contains a control character"));
            }
            let words: Vec<_> = line
                .split([' ', '\t'])
                .filter(|word| !word.is_empty())
                .collect();
            match words.first() {
                None => {}
                Some(word) if word.starts_with('#') => {}
                Some(_) => reader.read(&words).map_err(|reason| at(number, &reason))?,
            }
        }
        let quorum = reader
            .quorum
            .ok_or_else(|| at(last, "there is no quorum"))?;
        Ok(Self {
            logs: reader.logs,
            witnesses: reader.witnesses,
            groups: reader.groups,
            quorum,
        })
    }

    /// A policy of one log, of which `threshold` of these witnesses must cosign. `None` where the threshold is 0 or more than all of
    /// them, a key occurs twice, or a key is one of another use.
    pub fn with_threshold(
        log: Verifier,
        witnesses: Vec<Verifier>,
        threshold: usize,
    ) -> Option<Self> {
        let keys: BTreeSet<_> = witnesses.iter().map(Verifier::public_key).collect();
        let is_usable = log.key_use() == Use::Log
            && witnesses.iter().all(|key| key.key_use() == Use::Witness)
            && keys.len() == witnesses.len()
            && (1..=witnesses.len()).contains(&threshold);
        let members = (0..witnesses.len()).map(Member::Witness).collect();
        let witnesses = witnesses.into_iter().map(|key| Witness {
            name: key.name().to_owned(),
            key,
            url: None,
        });
        is_usable.then(|| Self {
            logs: vec![log],
            witnesses: witnesses.collect(),
            groups: vec![Group { threshold, members }],
            quorum: Some(Member::Group(0)),
        })
    }

    /// Keys of the logs.
    pub fn logs(&self) -> &[Verifier] {
        &self.logs
    }

    /// The witnesses.
    pub fn witnesses(&self) -> &[Witness] {
        &self.witnesses
    }

    /// Whether these witnesses, given by their numbers, are a quorum.
    fn is_met(&self, cosigned: &BTreeSet<usize>) -> bool {
        self.quorum
            .is_none_or(|quorum| self.has_cosigned(quorum, cosigned))
    }

    fn has_cosigned(&self, member: Member, cosigned: &BTreeSet<usize>) -> bool {
        match member {
            Member::Witness(number) => cosigned.contains(&number),
            // A group names only earlier groups, so this ends.
            Member::Group(number) => self.groups.get(number).is_some_and(|group| {
                let members = group.members.iter();
                let count = members
                    .filter(|member| self.has_cosigned(**member, cosigned))
                    .count();
                count >= group.threshold
            }),
        }
    }

    /// Judges a checkpoint at `now`, in Unix seconds: a log of the policy signed it, and a quorum cosigned it at most `max_age`
    /// seconds before.
    ///
    /// # Errors
    /// [`WitnessedError`].
    pub fn judge(&self, note: &Note, now: u64, max_age: u64) -> Result<Witnessed, WitnessedError> {
        let checkpoint = Checkpoint::parse(note.text())?;
        if !self.is_signed_by_log(note, &checkpoint)? {
            return Err(WitnessedError::UnknownLog {
                origin: checkpoint.origin,
            });
        }
        let mut times = Vec::new();
        for (number, witness) in self.witnesses.iter().enumerate() {
            match witness.key.verify(note) {
                Ok(time) => times.push((time, number)),
                Err(KeyError::Unsigned) => {}
                Err(_) => {
                    return Err(WitnessedError::Signature {
                        name: witness.key.name().to_owned(),
                    });
                }
            }
        }
        let all: BTreeSet<_> = times.iter().map(|(_, number)| *number).collect();
        if !self.is_met(&all) {
            return Err(WitnessedError::TooFew {
                count: all.len(),
                known: self.witnesses.len(),
            });
        }
        times.retain(|(time, _)| *time <= now.saturating_add(CLOCK_SKEW));
        times.sort_unstable_by(|left, right| right.cmp(left));
        // The newest cosignatures that are a quorum; the oldest of them counts.
        let mut enough = BTreeSet::new();
        let mut newest = times.iter();
        let mut time = now;
        while !self.is_met(&enough) {
            let (next, number) = newest.next().ok_or(WitnessedError::Future)?;
            enough.insert(*number);
            time = *next;
        }
        let age = now.saturating_sub(time);
        if age > max_age {
            return Err(WitnessedError::Stale { age, max_age });
        }
        let time = if enough.is_empty() { 0 } else { time };
        let name = |number: usize| {
            self.witnesses
                .get(number)
                .map(|witness| witness.name.clone())
        };
        let cosigned = times
            .iter()
            .filter(|(time, _)| now.saturating_sub(*time) <= max_age)
            .filter_map(|(time, number)| Some((name(*number)?, *time)))
            .collect();
        Ok(Witnessed {
            checkpoint,
            cosigned,
            time,
        })
    }

    fn is_signed_by_log(
        &self,
        note: &Note,
        checkpoint: &Checkpoint,
    ) -> Result<bool, WitnessedError> {
        let mut is_signed = false;
        for log in self
            .logs
            .iter()
            .filter(|log| log.name() == checkpoint.origin)
        {
            match log.verify(note) {
                Ok(_) => is_signed = true,
                Err(KeyError::Unsigned) => {}
                Err(_) => {
                    return Err(WitnessedError::Signature {
                        name: log.name().to_owned(),
                    });
                }
            }
        }
        Ok(is_signed)
    }
}
