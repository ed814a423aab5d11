//! Which rows take part in a search, by their metadata.

use std::cmp::Ordering;

use serde::Deserialize;

use crate::error::FilterError;
use crate::metadata::{MetadataRef, Value};

/// Most comparisons in a filter, values of `in` included.
const MAX_COMPARISONS: usize = 256;

/// A condition on the metadata of a row.
///
/// As JSON: `{"and": […]}`, `{"or": […]}`, `{"not": …}`, or a field with one comparison, such as `{"field": "year", "gte": 2020}`. The
/// comparisons are `eq`, `ne`, `lt`, `lte`, `gt`, `gte`, and `in` with a list. Texts compare bytewise. A field that a row does not have, or
/// that has another type, is equal to nothing and neither smaller nor larger; `ne` is the opposite of `eq`.
#[derive(Clone, Deserialize)]
#[serde(try_from = "Written")]
pub struct Filter {
    node: Node,
    comparisons: usize,
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
    and: Option<Vec<Filter>>,
    or: Option<Vec<Filter>>,
    not: Option<Box<Filter>>,
    field: Option<String>,
    eq: Option<Value>,
    ne: Option<Value>,
    lt: Option<Value>,
    lte: Option<Value>,
    gt: Option<Value>,
    gte: Option<Value>,
    r#in: Option<Vec<Value>>,
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
        let comparisons = match &node {
            Node::And(filters) | Node::Or(filters) => {
                filters.iter().map(|filter| filter.comparisons).sum()
            }
            Node::Not(filter) => filter.comparisons,
            Node::Compare { values, .. } => values.len().max(1),
        };
        match comparisons <= MAX_COMPARISONS {
            true => Ok(Self { node, comparisons }),
            false => Err(FilterError("a filter has at most 256 comparisons")),
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
