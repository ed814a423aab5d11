//! Which rows take part in a search, by their metadata.

use std::cmp::Ordering;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::error::FilterError;
use crate::metadata::{MetadataRef, Value};

/// Most parts of a filter: comparisons, values of `in`, and each `and`, `or` and `not`.
const MAX_PARTS: usize = 256;

const TOO_MANY: FilterError = FilterError(
    "a filter has at most 256 parts: each comparison, each value of `in`, and each `and`, `or` and `not` is one",
);

/// A condition on the metadata of a row.
///
/// As JSON: `{"and": […]}`, `{"or": […]}`, `{"not": …}`, or a field with one comparison, such as `{"field": "year", "gte": 2020}`. The
/// comparisons are `eq`, `ne`, `lt`, `lte`, `gt`, `gte`, and `in` with a list. Texts compare bytewise. A field that a row does not have, or
/// that has another type, is equal to nothing and neither smaller nor larger; `ne` is the opposite of `eq`.
#[derive(Clone, Deserialize)]
#[serde(try_from = "Written")]
pub struct Filter {
    node: Node,
    parts: usize,
}

#[derive(Clone)]
enum Node {
    And(Vec<Filter>),
    Or(Vec<Filter>),
    Not(Box<Filter>),
    Compare {
        field: String,
        relation: Relation,
        values: Vec<Value>,
    },
}

#[derive(Clone, Copy)]
enum Relation {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default, deserialize_with = "read_filters")]
    and: Option<Vec<Filter>>,
    #[serde(default, deserialize_with = "read_filters")]
    or: Option<Vec<Filter>>,
    not: Option<Box<Filter>>,
    field: Option<String>,
    eq: Option<Value>,
    ne: Option<Value>,
    lt: Option<Value>,
    lte: Option<Value>,
    gt: Option<Value>,
    gte: Option<Value>,
    #[serde(default, deserialize_with = "read_values")]
    r#in: Option<Vec<Value>>,
}

fn read_filters<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<Filter>>, D::Error> {
    read_list(from, |filter: &Filter| filter.parts).map(Some)
}

fn read_values<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<Value>>, D::Error> {
    read_list(from, |_: &Value| 1).map(Some)
}

/// Reads a list whose items have few parts altogether. Refuses a longer one before all of it is in memory.
fn read_list<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    from: D,
    parts: fn(&T) -> usize,
) -> Result<Vec<T>, D::Error> {
    struct List<T>(fn(&T) -> usize, PhantomData<T>);
    impl<'de, T: Deserialize<'de>> Visitor<'de> for List<T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Vec<T>, A::Error> {
            let (mut all, mut parts) = (Vec::new(), 0);
            while let Some(item) = items.next_element()? {
                parts += (self.0)(&item);
                if parts > MAX_PARTS {
                    return Err(A::Error::custom(TOO_MANY));
                }
                all.push(item);
            }
            Ok(all)
        }
    }
    from.deserialize_seq(List(parts, PhantomData))
}

impl TryFrom<Written> for Filter {
    type Error = FilterError;

    fn try_from(written: Written) -> Result<Self, FilterError> {
        let single = [
            (Relation::Equal, written.eq),
            (Relation::Unequal, written.ne),
            (Relation::Less, written.lt),
            (Relation::LessOrEqual, written.lte),
            (Relation::Greater, written.gt),
            (Relation::GreaterOrEqual, written.gte),
        ];
        let mut comparisons: Vec<(Relation, Vec<Value>)> = single
            .into_iter()
            .filter_map(|(relation, value)| Some((relation, vec![value?])))
            .collect();
        comparisons.extend(written.r#in.map(|values| (Relation::Equal, values)));
        let comparison = match (comparisons.pop(), comparisons.is_empty()) {
            (_, false) => {
                return Err(FilterError(
                    "a field has two comparisons; join two filters by `and`",
                ));
            }
            (comparison, true) => comparison,
        };
        let node = match (
            written.and,
            written.or,
            written.not,
            written.field,
            comparison,
        ) {
            (Some(all), None, None, None, None) => Node::And(all),
            (None, Some(any), None, None, None) => Node::Or(any),
            (None, None, Some(filter), None, None) => Node::Not(filter),
            (None, None, None, Some(field), Some((relation, values))) => Node::Compare {
                field,
                relation,
                values,
            },
            _ => {
                return Err(FilterError(
                    "a filter is `and`, `or`, `not`, or a `field` with a comparison",
                ));
            }
        };
        let parts = match &node {
            Node::And(filters) | Node::Or(filters) => {
                1 + filters.iter().map(|filter| filter.parts).sum::<usize>()
            }
            Node::Not(filter) => 1 + filter.parts,
            Node::Compare { values, .. } => values.len().max(1),
        };
        match parts <= MAX_PARTS {
            true => Ok(Self { node, parts }),
            false => Err(TOO_MANY),
        }
    }
}

impl Filter {
    /// Whether a row with these metadata takes part.
    pub(crate) fn accepts(&self, metadata: MetadataRef<'_>) -> bool {
        match &self.node {
            Node::And(filters) => filters.iter().all(|filter| filter.accepts(metadata)),
            Node::Or(filters) => filters.iter().any(|filter| filter.accepts(metadata)),
            Node::Not(filter) => !filter.accepts(metadata),
            Node::Compare {
                field,
                relation,
                values,
            } => values
                .iter()
                .any(|value| relation.holds(metadata.compare(field, value))),
        }
    }
}

impl Relation {
    fn holds(self, ordering: Option<Ordering>) -> bool {
        match self {
            Self::Equal => ordering.is_some_and(Ordering::is_eq),
            Self::Unequal => !ordering.is_some_and(Ordering::is_eq),
            Self::Less => ordering.is_some_and(Ordering::is_lt),
            Self::LessOrEqual => ordering.is_some_and(Ordering::is_le),
            Self::Greater => ordering.is_some_and(Ordering::is_gt),
            Self::GreaterOrEqual => ordering.is_some_and(Ordering::is_ge),
        }
    }
}
