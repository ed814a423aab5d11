//! Reads the members of a configuration file, and reports those that were not read.

use serde_json::{Map, Value};

use super::{ModelFiles, Problem};

/// The files, and the problems that were found so far.
pub(super) struct Problems<'a> {
    files: &'a ModelFiles,
    list: Vec<Problem>,
}

impl<'a> Problems<'a> {
    pub(super) fn new(files: &'a ModelFiles) -> Self {
        Self {
            files,
            list: Vec::new(),
        }
    }

    pub(super) fn into_list(self) -> Vec<Problem> {
        self.list
    }

    pub(super) fn add(&mut self, file: &str, message: impl Into<String>) {
        self.list.push(Problem {
            file: file.to_owned(),
            message: message.into(),
        });
    }

    /// Whether the folder has this file, of any size.
    pub(super) fn has(&self, path: &str) -> bool {
        self.files.contents.contains_key(path) || self.files.others.contains(path)
    }

    pub(super) fn contents(&self, path: &str) -> Option<&'a [u8]> {
        self.files.contents.get(path).map(Vec::as_slice)
    }

    /// The file's parsed contents; reports a file that is missing or malformed.
    pub(super) fn parse(&mut self, path: &str) -> Option<Value> {
        let Some(contents) = self.contents(path) else {
            self.add(path, "the file is missing");
            return None;
        };
        match serde_json::from_slice(contents) {
            Ok(value) => Some(value),
            Err(error) => {
                self.add(path, format!("the file is not JSON: {error}"));
                None
            }
        }
    }

    /// The members of a file that must be there.
    pub(super) fn settings(&mut self, path: &str) -> Option<Settings> {
        match self.parse(path)? {
            Value::Object(members) => Some(Settings {
                file: path.to_owned(),
                members,
            }),
            _ => {
                self.add(path, "the file is not a JSON object");
                None
            }
        }
    }

    /// The members of a file that may be missing.
    pub(super) fn optional_settings(&mut self, path: &str) -> Settings {
        let read = match self.has(path) {
            true => self.settings(path),
            false => None,
        };
        read.unwrap_or_else(|| Settings {
            file: path.to_owned(),
            members: Map::new(),
        })
    }
}

/// The members of a file that have not been read yet.
pub(super) struct Settings {
    pub(super) file: String,
    members: Map<String, Value>,
}

impl Settings {
    /// Takes a member; `null` counts as missing.
    pub(super) fn take(&mut self, name: &str) -> Option<Value> {
        self.members.remove(name).filter(|value| !value.is_null())
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.members.get(name).is_some_and(|value| !value.is_null())
    }

    /// The members that have not been read, as a file.
    pub(super) fn into_json(self) -> Vec<u8> {
        Value::Object(self.members).to_string().into_bytes()
    }

    /// Whether the member is there and `null`. Transformers does not replace such a value by its default.
    pub(super) fn is_null(&self, name: &str) -> bool {
        self.members.get(name).is_some_and(Value::is_null)
    }

    /// Takes a member that must be a whole number. Returns 1 after reporting another value.
    pub(super) fn number(&mut self, name: &str, problems: &mut Problems<'_>) -> usize {
        self.optional_number(name, problems).unwrap_or_else(|| {
            problems.add(
                &self.file,
                format!("{name} is missing or not a whole number"),
            );
            1
        })
    }

    /// Takes a whole number, if the member is there.
    pub(super) fn optional_number(
        &mut self,
        name: &str,
        problems: &mut Problems<'_>,
    ) -> Option<usize> {
        let value = self.take(name)?;
        // Writers of JSON without integers write 128.0; "no limit" is a number above all sizes.
        let whole = value.as_u64().or_else(|| {
            let float = value.as_f64()?;
            (float >= 0.0 && float.fract() == 0.0).then_some(float as u64)
        });
        if whole.is_none() {
            self.report(name, &value, "a whole number", problems);
        }
        whole.map(|whole| usize::try_from(whole).unwrap_or(usize::MAX))
    }

    /// Takes a number, if the member is there.
    pub(super) fn float(&mut self, name: &str, problems: &mut Problems<'_>) -> Option<f32> {
        let value = self.take(name)?;
        if value.as_f64().is_none() {
            self.report(name, &value, "a number", problems);
        }
        value.as_f64().map(|value| value as f32)
    }

    /// Takes a flag; a missing one is false.
    pub(super) fn flag(&mut self, name: &str, problems: &mut Problems<'_>) -> bool {
        let value = self.take(name).unwrap_or(Value::Bool(false));
        value.as_bool().unwrap_or_else(|| {
            self.report(name, &value, "true or false", problems);
            false
        })
    }

    /// Takes a member that Python tests for truth: numbers count too, and `null` is false. A missing one is `absent`.
    pub(super) fn truth(&mut self, name: &str, absent: bool, problems: &mut Problems<'_>) -> bool {
        match self.members.remove(name) {
            None => absent,
            Some(Value::Null) => false,
            Some(Value::Bool(flag)) => flag,
            Some(Value::Number(number)) => number.as_f64() != Some(0.0),
            Some(other) => {
                self.report(name, &other, "true or false", problems);
                absent
            }
        }
    }

    /// Takes a text, if the member is there.
    pub(super) fn text(&mut self, name: &str, problems: &mut Problems<'_>) -> Option<String> {
        let value = self.take(name)?;
        if value.as_str().is_none() {
            self.report(name, &value, "a text", problems);
        }
        value.as_str().map(str::to_owned)
    }

    /// Takes the members of a nested object, if it is there.
    pub(super) fn object(&mut self, name: &str, problems: &mut Problems<'_>) -> Option<Self> {
        match self.take(name)? {
            Value::Object(members) => Some(Self {
                file: self.file.clone(),
                members,
            }),
            other => {
                self.report(name, &other, "an object", problems);
                None
            }
        }
    }

    /// Takes a member, and refuses every value but `expected`; a missing member counts as expected. 1 and 1.0 are equal.
    pub(super) fn expect(&mut self, name: &str, expected: &Value, problems: &mut Problems<'_>) {
        if let Some(value) = self.take(name)
            && value != *expected
            && !(value.is_number() && value.as_f64() == expected.as_f64())
        {
            self.report(name, &value, &expected.to_string(), problems);
        }
    }

    /// Reports a value, shortened, and what was expected.
    pub(super) fn report(
        &self,
        name: &str,
        value: &Value,
        expected: &str,
        problems: &mut Problems<'_>,
    ) {
        let shown: String = value.to_string().chars().take(60).collect();
        problems.add(
            &self.file,
            format!("{name} is {shown}, expected {expected}"),
        );
    }

    /// Drops members that do not affect an embedding.
    pub(super) fn ignore(&mut self, names: &[&str]) {
        self.members
            .retain(|name, _| !names.contains(&name.as_str()));
    }

    /// Drops members whose names end like this, and which do not affect an embedding.
    pub(super) fn ignore_endings(&mut self, endings: &[&str]) {
        let ends = |name: &str| endings.iter().any(|ending| name.ends_with(ending));
        self.members.retain(|name, _| !ends(name));
    }

    /// Reports each member that is left, unless its value switches it off.
    pub(super) fn finish(self, problems: &mut Problems<'_>) {
        for (name, value) in &self.members {
            if !is_off(value) {
                let shown: String = value.to_string().chars().take(60).collect();
                let message = format!(
                    "{} is {shown}, which is not understood",
                    name.escape_default()
                );
                problems.add(&self.file, message);
            }
        }
    }
}

/// Whether a value switches its setting off.
fn is_off(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(on) => !on,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
    }
}
