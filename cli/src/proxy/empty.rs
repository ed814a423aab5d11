//! Empty texts: with --empty skip they are left out of the sealed request, and empty vectors take their places in the answer.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use protocol::json::JsonText;
use serde::de::{self, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};

use super::dialect::MAX_TEXTS;

/// Effect of an empty text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum OnEmpty {
    /// Do not send it; its vector in the answer is empty.
    Skip,
    /// Refuse the request (INPUT_EMPTY), and name the item.
    Refuse,
}

/// A request for embeddings that has empty items, in OpenAI's form.
#[derive(Debug)]
pub(super) struct Split {
    /// The request without them; `None` if all items are empty.
    pub(super) rest: Option<Bytes>,
    pub(super) gaps: Gaps,
}

/// Places of the empty items, and the form of their vectors.
#[derive(Debug)]
pub(super) struct Gaps {
    /// Ascending.
    pub(super) places: Vec<usize>,
    /// Number of all items of the request.
    count: usize,
    encoding: Encoding,
    /// The model as the request names it.
    model: String,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Encoding {
    Float,
    Base64,
}

/// Takes the empty items out of a body. Returns `None` if it has none, or if the enclave refuses the body for another reason.
pub(super) fn split(body: &[u8]) -> Option<Split> {
    // The reader of the enclave, so that both find the same members.
    let text = JsonText::read(body).ok()?;
    let mut members: Members<'_> = serde_json::from_str(&text).ok()?;
    let model = serde_json::from_str(members.only("model")??.get()).ok()?;
    let encoding = match members.only("encoding_format")? {
        None => Encoding::Float,
        Some(name) => {
            let name: Option<Encoding> = serde_json::from_str(name.get()).ok()?;
            name.unwrap_or(Encoding::Float)
        }
    };
    let input = members.only("input")??;
    let (items, is_list) = match input.get().starts_with('[') {
        true => (
            serde_json::from_str::<Elements<'_>>(input.get()).ok()?.0,
            true,
        ),
        false => (vec![input], false),
    };
    let places = find_empty(&items)?;
    if places.is_empty() {
        return None;
    }
    let kept = items.iter().enumerate();
    let kept = kept.filter(|(place, _)| places.binary_search(place).is_err());
    let kept: Vec<_> = kept.map(|(_, item)| *item).collect();
    let rest = match kept.is_empty() || !is_list {
        true => None,
        false => {
            members.replace("input", to_raw_value(&kept).ok()?);
            Some(serde_json::to_vec(&members).ok()?.into())
        }
    };
    let gaps = Gaps {
        places,
        count: items.len(),
        encoding,
        model,
    };
    Some(Split { rest, gaps })
}

/// Returns the places of the empty items; `None` if the items are not of one kind, texts or lists.
fn find_empty(items: &[&RawValue]) -> Option<Vec<usize>> {
    let kind = items.first()?.get().chars().next()?;
    let (true, true) = (
        matches!(kind, '"' | '['),
        items.iter().all(|item| item.get().starts_with(kind)),
    ) else {
        return None;
    };
    let is_empty = |item: &RawValue| match item.get().strip_prefix('[') {
        None => item.get() == "\"\"",
        Some(list) => list.trim_start() == "]",
    };
    let places = items.iter().enumerate();
    let places = places.filter(|(_, item)| is_empty(item));
    Some(places.map(|(place, _)| place).collect())
}

/// The place of the first empty item.
pub(super) fn first_empty(body: &[u8]) -> Option<usize> {
    split(body)?.gaps.places.first().copied()
}

impl Gaps {
    /// Puts empty vectors into an answer. `None` if the answer does not fit the request.
    pub(super) fn fill(&self, answer: &[u8]) -> Option<Vec<u8>> {
        let mut members: Members<'_> = serde_json::from_slice(answer).ok()?;
        let data = members.only("data")??;
        let mut rows = serde_json::from_str::<Vec<&RawValue>>(data.get())
            .ok()?
            .into_iter();
        let mut all = Vec::with_capacity(self.count);
        let mut vacant = 0;
        for index in 0..self.count {
            if self.places.binary_search(&index).is_ok() {
                all.push(to_raw_value(&Empty::new(index, self.encoding)).ok()?);
                vacant += 1;
                continue;
            }
            let mut row: Members<'_> = serde_json::from_str(rows.next()?.get()).ok()?;
            let place: usize = serde_json::from_str(row.only("index")??.get()).ok()?;
            if place + vacant != index {
                return None;
            }
            row.replace("index", to_raw_value(&index).ok()?);
            all.push(to_raw_value(&row).ok()?);
        }
        if rows.next().is_some() {
            return None;
        }
        members.replace("data", to_raw_value(&all).ok()?);
        serde_json::to_vec(&members).ok()
    }

    /// Writes the answer to a request that has only empty items.
    pub(super) fn answer(&self) -> serde_json::Result<Vec<u8>> {
        #[derive(Serialize)]
        struct Answer<'a> {
            object: &'static str,
            data: Vec<Empty>,
            model: &'a str,
            usage: Usage,
        }
        #[derive(Default, Serialize)]
        struct Usage {
            prompt_tokens: u64,
            total_tokens: u64,
        }
        let rows = (0..self.count).map(|index| Empty::new(index, self.encoding));
        serde_json::to_vec(&Answer {
            object: "list",
            data: rows.collect(),
            model: &self.model,
            usage: Usage::default(),
        })
    }
}

/// The item of an empty text in an answer.
#[derive(Serialize)]
struct Empty {
    object: &'static str,
    index: usize,
    embedding: NoVector,
    clearseal: Remarks,
}

#[derive(Serialize)]
#[serde(untagged)]
enum NoVector {
    Float([f32; 0]),
    Base64(&'static str),
}

#[derive(Default, Serialize)]
struct Remarks {
    tokens: u64,
    truncated: bool,
}

impl Empty {
    fn new(index: usize, encoding: Encoding) -> Self {
        Self {
            object: "embedding",
            index,
            embedding: match encoding {
                Encoding::Float => NoVector::Float([]),
                Encoding::Base64 => NoVector::Base64(""),
            },
            clearseal: Remarks::default(),
        }
    }
}

/// Members of an object in their order, with unread values.
struct Members<'a>(Vec<(String, Cow<'a, RawValue>)>);

impl<'a> Members<'a> {
    /// Looks up a member; `None` if it is there twice.
    fn only(&self, name: &str) -> Option<Option<&'a RawValue>> {
        let mut found = self.0.iter().filter(|(known, _)| known == name);
        match (found.next(), found.next()) {
            (None, _) => Some(None),
            (Some((_, Cow::Borrowed(value))), None) => Some(Some(value)),
            _ => None,
        }
    }

    fn replace(&mut self, name: &str, value: Box<RawValue>) {
        if let Some((_, old)) = self.0.iter_mut().find(|(known, _)| known == name) {
            *old = Cow::Owned(value);
        }
    }
}

impl Serialize for Members<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor)
    }
}

/// Elements of a list, unread.
struct Elements<'a>(Vec<&'a RawValue>);

impl<'de> Deserialize<'de> for Elements<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(ElementsVisitor)
    }
}

/// Reads a bounded number of members: a small body could otherwise take a lot of memory.
struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Members<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some((name, value)) = map.next_entry::<String, &RawValue>()? {
            if members.len() == MAX_MEMBERS {
                return Err(de::Error::custom("too many members"));
            }
            members.push((name, Cow::Borrowed(value)));
        }
        Ok(Members(members))
    }
}

/// Reads as many elements as the enclave accepts.
struct ElementsVisitor;

impl<'de> Visitor<'de> for ElementsVisitor {
    type Value = Elements<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut elements = Vec::new();
        while let Some(element) = list.next_element()? {
            if elements.len() == MAX_TEXTS {
                return Err(de::Error::custom("too many elements"));
            }
            elements.push(element);
        }
        Ok(Elements(elements))
    }
}

/// More than any client sends.
const MAX_MEMBERS: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_items_are_taken_out_and_everything_else_is_kept_byte_for_byte() {
        for (body, places, rest) in [
            (
                r#"{"x": 1e999, "model":"m","input":["", "\u0061" ,""],"x":2.50}"#,
                &[0, 2][..],
                Some(r#"{"x":1e999,"model":"m","input":["\u0061"],"x":2.50}"#),
            ),
            (
                r#"{"model":"m","input":[[1, 2],[ ]],"tokenizer":"m"}"#,
                &[1],
                Some(r#"{"model":"m","input":[[1, 2]],"tokenizer":"m"}"#),
            ),
            (r#"{"model":"m","input":""}"#, &[0], None),
            (
                r#"{"model":"m","input":["",""],"encoding_format":null}"#,
                &[0, 1],
                None,
            ),
        ] {
            let split = split(body.as_bytes()).unwrap();
            assert_eq!(split.gaps.places, places, "{body}");
            assert_eq!(split.rest.as_deref(), rest.map(str::as_bytes), "{body}");
        }
    }

    #[test]
    fn bodies_that_the_enclave_refuses_and_those_without_an_empty_item_are_left_to_it() {
        let many = vec!["\"\""; MAX_TEXTS + 1].join(",");
        for body in [
            r#"{"model":"m","input":["a"," "]}"#,
            r#"{"model":"m","input":[1,2]}"#,
            r#"{"model":"m","input":[]}"#,
            r#"{"model":"m","input":["a",[]]}"#,
            r#"{"model":"m","input":[[1],""]}"#,
            r#"{"model":"m","input":null}"#,
            r#"{"model":"m","input":"","input":""}"#,
            r#"{"model":"m","input":"","encoding_format":"tensors"}"#,
            r#"{"model":1,"input":""}"#,
            r#"{"input":""}"#,
            "[]",
            "",
            &format!(r#"{{"model":"m","input":[{many}]}}"#),
        ] {
            assert!(split(body.as_bytes()).is_none(), "{body}");
        }
    }

    #[test]
    fn empty_vectors_take_their_places_in_the_answer() {
        let gaps = |format: &str| {
            let body =
                format!(r#"{{"model":"m","input":["","a","","b"],"encoding_format":"{format}"}}"#);
            split(body.as_bytes()).unwrap().gaps
        };
        let answer = r#"{"clearseal":{"items":"r"},"data":[{"object":"embedding","index":0,"embedding":[1.50]},{"index":1,"embedding":[-0]}],"model":"m"}"#;
        let filled = gaps("float").fill(answer.as_bytes()).unwrap();
        assert_eq!(
            String::from_utf8(filled).unwrap(),
            r#"{"clearseal":{"items":"r"},"data":[{"object":"embedding","index":0,"embedding":[],"clearseal":{"tokens":0,"truncated":false}},{"object":"embedding","index":1,"embedding":[1.50]},{"object":"embedding","index":2,"embedding":[],"clearseal":{"tokens":0,"truncated":false}},{"index":3,"embedding":[-0]}],"model":"m"}"#
        );
        let filled = gaps("base64").fill(answer.as_bytes()).unwrap();
        let empty = r#"{"object":"embedding","index":2,"embedding":"","clearseal""#;
        assert!(String::from_utf8(filled).unwrap().contains(empty));
        for other in [
            r#"{"data":[{"index":0}]}"#,
            r#"{"data":[{"index":0},{"index":1},{"index":2}]}"#,
            r#"{"data":[{"index":1},{"index":0}]}"#,
            r#"{"data":[{"index":0},{"index":0}]}"#,
            r#"{"data":[{"index":0},{"index":"1"}]}"#,
            r#"{"data":[{},{}]}"#,
            "{}",
            "",
        ] {
            assert_eq!(gaps("float").fill(other.as_bytes()), None, "{other}");
        }
        let none = split(br#"{"model":"m","input":""}"#).unwrap().gaps;
        assert_eq!(
            String::from_utf8(none.answer().unwrap()).unwrap(),
            r#"{"object":"list","data":[{"object":"embedding","index":0,"embedding":[],"clearseal":{"tokens":0,"truncated":false}}],"model":"m","usage":{"prompt_tokens":0,"total_tokens":0}}"#
        );
    }
}
