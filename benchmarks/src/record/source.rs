//! The report that published figures, and its tables as they stand there.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use ts_rs::TS;

#[cfg(doc)]
use super::Measurement;

/// A published report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(deny_unknown_fields)]
#[ts(optional_fields)]
pub struct Report {
    /// Short name in file names and links: `[a-z0-9-]`.
    #[schemars(length(min = 1, max = 80), regex(pattern = r"^[a-z0-9-]+$"))]
    pub id: String,
    /// Its own title.
    #[schemars(length(max = 200))]
    pub title: String,
    /// When it was measured, as it says itself; absent where it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 80))]
    pub date: Option<String>,
    /// Figures that stand in sentences and not in tables.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[ts(as = "Option<_>")]
    #[schemars(length(max = 200))]
    pub statements: Vec<Statement>,
    /// Works that the report cites.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[ts(as = "Option<_>")]
    #[schemars(length(max = 200))]
    pub references: Vec<Reference>,
}

/// A figure in a sentence of a report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(deny_unknown_fields)]
pub struct Statement {
    /// Heading above it.
    #[schemars(length(max = 200))]
    pub heading: String,
    /// The words around the figure, as they stand there.
    #[schemars(length(max = 400))]
    pub quote: String,
}

/// A work that a report cites.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(deny_unknown_fields)]
pub struct Reference {
    /// Number in the report's own list.
    pub number: u32,
    /// Author, title, place and date.
    #[schemars(length(max = 400))]
    pub work: String,
    /// Where it is found.
    #[schemars(length(max = 400), regex(pattern = r"^https://"))]
    pub url: String,
}

/// A table as published. Every cell that holds a figure is cited by a [`Measurement`]; a test holds both against each other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// Unique in its file: `[a-z0-9-]`.
    #[schemars(length(min = 1, max = 80), regex(pattern = r"^[a-z0-9-]+$"))]
    pub id: String,
    /// Heading above it in the report.
    #[schemars(length(max = 200))]
    pub heading: String,
    /// What its cells are.
    pub kind: TableKind,
    /// Names of its columns.
    #[schemars(length(min = 1, max = 20))]
    pub columns: Vec<String>,
    /// Columns, counted from 0, that say what a row is about and are parameters of its figures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[ts(as = "Option<_>")]
    #[schemars(length(max = 20))]
    pub keys: Vec<u32>,
    /// Cells, markup left out.
    #[schemars(length(max = 1_000))]
    pub rows: Vec<Vec<String>>,
}

/// What the cells of a [`Table`] are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "snake_case")]
pub enum TableKind {
    /// Measured or claimed figures.
    Figures,
    /// Machines, methods and files: what a record's own fields say.
    Description,
    /// Thresholds, which [`crate::catalogue`] applies.
    Guide,
    /// Works of others, with no figure of their own here.
    Literature,
}
