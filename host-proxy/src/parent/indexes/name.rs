//! Names of indexes and of their objects. Nothing else becomes a path.

use object_store::path::Path;

/// An index: 32 hex digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct IndexName(String);

/// An object of an index, in one of its two forms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ObjectName {
    index: IndexName,
    object: Object,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Object {
    /// A segment, or a part of the history. Its name is 32 random bytes in hex.
    Segment(String),
    /// A state, named by its version in 20 digits.
    State(String),
}

impl IndexName {
    pub(super) fn parse(text: &str) -> Option<Self> {
        is_hex(text, 32).then(|| Self(text.to_owned()))
    }

    pub(super) fn path(&self) -> Path {
        Path::from(self.0.as_str())
    }
}

impl ObjectName {
    pub(super) fn parse(index: &str, kind: &str, name: &str) -> Option<Self> {
        let index = IndexName::parse(index)?;
        let is_version = name.len() == 20 && name.bytes().all(|byte| byte.is_ascii_digit());
        let object = match kind {
            "segments" if is_hex(name, 64) => Object::Segment(name.to_owned()),
            "states" if is_version && name.parse::<u64>().is_ok() => Object::State(name.to_owned()),
            _ => return None,
        };
        Some(Self { index, object })
    }

    /// Parses a path that [`path`](Self::path) made.
    pub(super) fn from_path(path: &str) -> Option<Self> {
        let (index, below) = path.split_once('/')?;
        let (kind, name) = below.split_once('/')?;
        Self::parse(index, kind, name)
    }

    /// `KIND/NAME`.
    pub(super) fn below_index(&self) -> String {
        match &self.object {
            Object::Segment(name) => format!("segments/{name}"),
            Object::State(name) => format!("states/{name}"),
        }
    }

    pub(super) fn path(&self) -> Path {
        Path::from(format!("{}/{}", self.index.0, self.below_index()))
    }
}

fn is_hex(text: &str, length: usize) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    text.len() == length && text.bytes().all(is_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_two_forms_are_names() {
        let (index, segment) = ("0123456789abcdef".repeat(2), "ab".repeat(32));
        let state = "00000000000000000007";
        for (kind, name) in [("segments", segment.as_str()), ("states", state)] {
            let parsed = ObjectName::parse(&index, kind, name).unwrap();
            assert_eq!(parsed.path().as_ref(), format!("{index}/{kind}/{name}"));
            assert_eq!(ObjectName::from_path(parsed.path().as_ref()), Some(parsed));
        }
        for (index, kind, name) in [
            (&*index, "segments", state),
            (&*index, "states", segment.as_str()),
            (&*index, "states", "0000000000000000000a"),
            (&*index, "states", "99999999999999999999"),
            (&*index, "states", "7"),
            (&*index, "..", state),
            (&*index, "segments", &"AB".repeat(32)),
            (&*index, "segments", "../../../../etc/passwd"),
            ("..", "states", state),
            ("", "states", state),
            (&"A".repeat(32), "states", state),
        ] {
            assert!(
                ObjectName::parse(index, kind, name).is_none(),
                "{kind}/{name}"
            );
        }
    }
}
